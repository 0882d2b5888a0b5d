import json

import pytest

from tests.verify.evals.sums import kept, number_of, result, solver
from verify.store import Store


@pytest.mark.usefixtures("page")
def test_a_run_against_two_servers(evals, suite, servers, here):
    code, out, err = evals("--suite", suite, *servers(wrong={5, 7}), "--out", "run", "--json", "r")
    assert (code, err) == (0, "")
    assert "PASS" in out
    assert "report.html" in out
    assert (here / "run" / "report.html").exists()
    found = result(here / "run")
    assert json.loads((here / "r").read_text()) == found
    assert found["verdict"] == "pass"
    (sums,) = found["suites"]
    assert (sums["items"], sums["lost"], sums["gained"], sums["neither"]) == (118, 1, 0, 1)
    manifest = json.loads((here / "run" / "manifest.json").read_text())
    assert manifest == found["manifest"]
    assert list(manifest["arms"]) == ["base", "pr"]
    described = manifest["suites"]["sums"]
    assert [shot["row"] for shot in described["shots"]] == [1, 2]
    assert "not scored" in described["shots_note"]
    assert (described["margin_pt"], described["margin_from"]) == (5, "the suite")
    assert len(described["items"]) == 118
    assert described["sampling"] == {"temperature": 0, "max_tokens": 9, "stop": ["Question:"]}
    assert {"python", "torch", "triton", "kernelproof"} <= set(manifest["versions"])
    with Store.open(here / "run" / "records.sqlite") as store:
        records = list(store.records())
        assert [item.item for item in store.items("sums")] == described["items"]
    assert len(records) == 236
    assert {record.rule for record in records} == {"hashes"}


def test_the_worked_examples_are_not_asked(evals, suite, fake_server):
    asked = set()

    def behave(body, _):
        asked.add(number_of(body["prompt"]))
        return fake_server.completion()

    one, other = fake_server(behave), fake_server(behave)
    evals("--suite", suite, "--arm", f"base={one.url}", "--arm", f"pr={other.url}", "--out", "run")
    assert asked == set(range(2, 120))


def test_limit_takes_the_same_first_items_for_both_arms(evals, suite, servers, here):
    code, _, _ = evals("--suite", suite, *servers(), "--limit", 7, "--out", "a")
    assert code == 3
    evals("--suite", suite, *servers(), "--limit", 9, "--out", "b")
    few, more = (result(here / name)["manifest"]["suites"]["sums"]["items"] for name in "ab")
    assert len(few) == 7
    assert more[:7] == few


def test_repeats_are_asked_in_orders_of_their_own(evals, suite, fake_server, here):
    asked = []

    def behave(body, _):
        asked.append(number_of(body["prompt"]))
        return solver(fake_server.completion)(body, 0)

    one, other = fake_server(behave), fake_server(solver(fake_server.completion))
    arms = ["--arm", f"base={one.url}", "--arm", f"pr={other.url}"]
    words = ["--suite", suite, *arms, "--concurrency", 1, "--repeats", 2]
    code, out, _ = evals(*words, "--out", "run")
    assert code == 0
    assert "one server start an arm, so shifts of starts not controlled" in out
    found = result(here / "run")
    (sums,) = found["suites"]
    assert sums["repeats"] == {"base": 2, "pr": 2}
    assert sums["interval_method"] == "Gaffke bound on item means"
    assert sums["starts"] == {"base": 1, "pr": 1, "controlled": False}
    assert sums["noise"]["flips_between"] == 0
    described = found["manifest"]["suites"]["sums"]
    assert len(described["orders"]) == 2
    assert described["orders"][0] != described["orders"][1]
    assert sorted(described["orders"][0]) == list(range(118))
    assert found["manifest"]["rules"] == {
        "early_stop": True, "certify": False, "seed": 0, "extend_capped": None
    }  # fmt: skip
    assert described["detectable_pt"]["if no answer flips"] == pytest.approx(3.08, abs=0.01)
    by_item = {item: n for n, item in enumerate(described["items"])}
    numbers = {
        by_item[r.item]: None for r in kept(here / "run") if r.arm == "base" and not r.repeat
    }
    assert list(numbers) == described["orders"][0]
    first, second = asked[:118], asked[118:]
    assert first != second
    assert sorted(first) == sorted(second)


def test_the_seed_gives_the_order(evals, suite, servers, here):
    orders = []
    for number, seed in enumerate((0, 0, 7)):
        evals("--suite", suite, *servers(), "--seed", seed, "--out", f"run{number}")
        orders.append(result(here / f"run{number}")["manifest"]["suites"]["sums"]["orders"])
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_what_either_arm_left_unfinished_is_asked_again_of_both(evals, suite, fake_server, here):
    limits = {"base": [], "pr": []}

    def server(arm, cut):
        def behave(body, _):
            number, limit = number_of(body["prompt"]), body["max_tokens"]
            limits[arm].append((number, limit))
            unfinished = {number} if number in cut and limit == 9 else ()
            return solver(fake_server.completion, cut=unfinished)(body, 0)

        return f"{arm}={fake_server(behave).url}"

    arms = ["--arm", server("base", {10, 11}), "--arm", server("pr", set(range(11, 30)))]
    words = ["--suite", suite, *arms]
    assert evals(*words, "--out", "short")[0] == 3
    for seen in limits.values():
        seen.clear()
    assert evals(*words, "--extend-capped", 50, "--out", "run")[0] == 0
    (sums,) = result(here / "run")["suites"]
    assert sums["truncated"] == {"base": 0, "pr": 0}
    for seen in limits.values():
        assert len(seen) == 118 + 20
        assert {number for number, limit in seen if limit == 50} == set(range(10, 30))
    assert len(kept(here / "run")) == 236
    assert len(result(here / "run")["manifest"]["extended"]["sums"]) == 20

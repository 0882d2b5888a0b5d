"""`compare` on the folder of a run of ours."""

import json

import msgspec
import numpy as np

from tests.verify.evals.comparing.arms import records
from verify.store import FILE_NAME, Record, Store


def own_run(folder, margin=5.0, limit=9):
    """A run of ours: two arms in one file, and the manifest that fixed the margin before."""
    folder.mkdir()
    arms = records(both=180, lost=1, gained=1, neither=10)
    with Store.open(folder / FILE_NAME) as store:
        for arm, rows in arms.items():
            for row in rows:
                store.add(Record(arm=arm, **row | {"suite": "sums"}))
    (folder / "manifest.json").write_text(
        json.dumps(
            {
                "suites": {
                    "sums": {
                        "margin_pt": margin,
                        "floor": 0.05,
                        "sampling": {"temperature": 0.0, "max_tokens": limit},
                    }
                },
                "arms": {"base": {"kind": "server"}, "pr": {"kind": "server"}},
            }
        )
    )
    return [f"{folder}::base", f"{folder}::pr"]


def test_a_runs_own_margin_holds_and_a_change_of_it_is_shown(compared, here):
    run = own_run(here / "run")
    code, out, found = compared(*run)
    assert code == 0
    assert found["suites"][0]["noninferiority"]["margin_pt"] == 5
    assert found["manifest"]["suites"]["sums"]["margin_from"] == "the run's manifest"
    assert "changed" not in out
    _, out, found = compared(*run, "--margin", 9)
    assert "the margin was changed after the answers existed, from 5 to 9 points" in out
    assert found["manifest"]["notes"]


def test_runs_on_fresh_starts_are_repeats_of_one_comparison(compared, refused, here):
    one, other = own_run(here / "one"), own_run(here / "other")
    words = [w for run in (one, other) for w in ("--base", run[0], "--pr", run[1])]
    code, _, found = compared(*words)
    assert code in (0, 3)
    assert found["suites"][0]["starts"] == {"base": 2, "pr": 2, "controlled": True}
    longer = own_run(here / "longer", limit=50)
    refused([one[0], longer[1]], "they differ in sampling.sums.max_tokens: 9 and 50", code=4)


def stopped_run(folder, answered, *, wrong=(), early_stop=True, certify=False):
    """A run that ended after `answered` questions; PR is wrong at the places `wrong`."""
    folder.mkdir()
    order = np.random.default_rng(4).permutation(300).tolist()
    with Store.open(folder / FILE_NAME) as store:
        for place, number in enumerate(order):
            # base is ahead by three questions that PR never answered
            for arm in ("base", "pr") if place < answered else ("base",) * (place < answered + 3):
                right = number % 10 != 0 and not (arm == "pr" and place in wrong)
                store.add(Record(arm=arm, suite="sums", item=f"q{number}", correct=right))
    asked = {
        "margin_pt": 5.0,
        "floor": 0.05,
        "items": [f"q{number}" for number in range(300)],
        "orders": [order],
    }
    manifest = {
        "rules": {"early_stop": early_stop, "certify": certify},
        "suites": {"sums": asked},
        "arms": {"base": {"kind": "server"}, "pr": {"kind": "server"}},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return [f"{folder}::base", f"{folder}::pr"]


def test_what_an_early_stop_left_out_is_not_missing(compared, here):
    code, out, found = compared(*stopped_run(here / "run", 25, wrong=range(25)))
    (suite,) = found["suites"]
    assert code == 1
    assert suite["items"] == suite["sequential"]["questions"] == 25
    assert suite["sequential"]["stopped"]
    assert suite["sequential"]["harm"] >= 20
    assert suite["interval_pt"] == suite["sequential"]["confidence_sequence_pt"]
    assert suite["noninferiority"]["p"] is suite["mcnemar"] is suite["detectable_pt"] is None
    assert "where the run stopped" in out
    assert "e-value of harm" in out


def test_a_run_that_ended_early_without_such_evidence_is_invalid(compared, here):
    words = stopped_run(here / "quiet", 25)
    code, out, _ = compared(*words)
    assert code == 4
    assert "3 items (first" in out
    assert "neither arm has 272 of 300 items" in out
    code, _, _ = compared(*stopped_run(here / "fixed", 25, wrong=range(25), early_stop=False))
    assert code == 4


def test_a_certificate_is_the_only_route_of_a_run_that_asked_for_one(compared, here):
    words = stopped_run(here / "run", 200, certify=True)
    code, out, found = compared(*words)
    assert code == 0
    assert found["suites"][0]["sequential"]["certificate"] >= 40
    assert "ruled out by the certificate" in out
    code, _, found = compared(*words, "--margin", "2")
    assert code == 3  # the evidence is counted anew at another margin
    assert found["suites"][0]["sequential"]["certificate"] < 40


def test_subsets_keep_the_order_in_which_they_were_asked(compared, here):
    words = stopped_run(here / "run", 25, wrong=range(25))
    rows = [f"q{number},{'even' if number % 2 == 0 else 'odd'}" for number in range(300)]
    (here / "split.csv").write_text("\n".join(["item,subset", *rows]))
    _, _, found = compared(*words, "--split", "split.csv")
    even, odd = (each["sequential"] for each in found["suites"])
    assert even["questions"] + odd["questions"] == 25
    assert even["stopped"]
    assert min(even["harm"], odd["harm"]) > 1


def test_servers_started_for_every_repeat_are_told_apart(compared, here):
    words = own_run(here / "run")
    with Store.open(here / "run" / FILE_NAME) as store:
        for record in list(store.records()):
            store.add(msgspec.structs.replace(record, repeat=1))
    path = here / "run" / "manifest.json"
    manifest = json.loads(path.read_text())
    items = [f"q{n}" for n in range(192)]
    manifest["suites"]["sums"] |= {"items": items, "orders": [list(range(192))] * 2}
    for launch, starts in ((None, 1), (["serve"], 2)):
        for arm in manifest["arms"].values():
            arm["launch"] = launch
        path.write_text(json.dumps(manifest))
        (suite,) = compared(*words)[2]["suites"]
        assert suite["starts"] == {"base": starts, "pr": starts, "controlled": starts > 1}


def test_a_run_is_compared_as_it_judged_itself(evals, suite, servers, here):
    servers_of_run = servers(wrong=set(range(120)))
    evals("--suite", suite, *servers_of_run, "--out", "run")
    judged = json.loads((here / "run" / "result.json").read_text())
    assert judged["suites"][0]["sequential"]["stopped"]
    evals("compare", "run::base", "run::pr", "--json", "again.json")
    again = json.loads((here / "again.json").read_text())
    assert again["suites"] == judged["suites"]

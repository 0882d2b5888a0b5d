import json

from aiohttp import web

from tests.verify.evals.sums import kept, number_of, result, solver
from verify.store import Store


def test_a_worse_arm_fails(evals, suite, servers):
    code, out, _ = evals("--suite", suite, *servers(wrong=set(range(0, 120, 3))), "--out", "run")
    assert code == 1
    assert "FAIL" in out
    assert "PR is worse than base" in out


def test_a_broken_arm_stops_the_run_early(evals, suite, servers, here):
    words = ["--suite", suite, *servers(wrong=set(range(120)))]
    code, out, _ = evals(*words, "--out", "run")
    assert code == 1
    assert "PR is worse than base by more than 5 points: e-value" in out
    assert "where the run stopped" in out
    (sums,) = result(here / "run")["suites"]
    looks = sums["sequential"]
    assert looks["stopped"]
    assert looks["harm"] >= 20
    assert sums["interval_method"].startswith("betting")
    assert sums["interval_pt"] == looks["confidence_sequence_pt"]
    assert sums["noninferiority"]["p"] is sums["mcnemar"] is sums["detectable_pt"] is None
    # a kernel that breaks the model stops after some 15 questions and what was in flight
    assert sum(record.arm == "pr" for record in kept(here / "run")) < 30
    code, out, _ = evals(*words, "--no-early-stop", "--out", "all")
    assert code == 1
    assert len(kept(here / "all")) == 236
    (sums,) = result(here / "all")["suites"]
    assert not sums["sequential"]["stopped"]
    assert sums["noninferiority"]["p"] > 0.9


def test_a_loss_within_the_margin_never_stops_a_run(evals, suite, servers, here):
    wrong = set(range(2, 120, 40))  # 3 of 118
    evals("--suite", suite, *servers(wrong=wrong), "--margin", "5", "--out", "run")
    assert len(kept(here / "run")) == 236


def test_a_certificate_may_end_a_run_as_a_pass(evals, suite, servers, here):
    words = ["--suite", suite, *servers(wrong={5}), "--certificate"]
    code, out, _ = evals(*words, "--margin", "12", "--out", "run")
    assert code == 0
    assert "ruled out by the certificate" in out
    (sums,) = result(here / "run")["suites"]
    assert sums["sequential"]["certificate"] >= 40
    assert sums["sequential"]["stopped"]
    assert len(kept(here / "run")) < 236
    code, out, _ = evals(*words, "--margin", "2", "--out", "other")
    assert code == 3
    assert "the certificate reached e-value" in out


def test_a_smaller_margin_is_inconclusive(evals, suite, servers):
    for margin in ("1", "sums=1"):
        code, out, _ = evals(
            "--suite", suite, *servers(), "--margin", margin, "--out", f"m{margin}"
        )
        assert code == 3
        assert "a loss of 1 point is not ruled out" in out


def test_truncated_answers_are_counted_against_it(evals, suite, servers):
    code, out, _ = evals("--suite", suite, *servers(cut=set(range(10, 30))), "--out", "run")
    assert code == 3
    assert "20 truncated answers (0 of base, 20 of PR)" in out


def test_a_request_never_answered_makes_it_invalid(evals, suite, servers, fake_server, here):
    def behave(body, _):
        if number_of(body["prompt"]) == 9:
            return web.Response(status=400, text="no nines")
        return solver(fake_server.completion)(body, 0)

    broken = fake_server(behave)
    words = servers()
    code, out, _ = evals("--suite", suite, *words[:2], "--arm", f"pr={broken.url}", "--out", "run")
    assert code == 4
    assert "pr never answered 1 of 118 items: 1 http_400" in out
    (sums,) = result(here / "run")["suites"]
    assert sums["items"] == 117  # nobody was graded wrong for it
    with Store.open(here / "run" / "records.sqlite") as store:
        (failed,) = [record for record in store.records() if record.error]
    assert failed.correct is None
    assert failed.error == "http_400: no nines"


def test_layers_one_and_two_in_the_folder_count_too(evals, suite, servers, here):
    (here / "run").mkdir()
    finding = {
        "case": "T=1",
        "check": "scales",
        "layer": 2,
        "message": "3 bytes differ",
        "first_bad": None,
        "replay": "python -m verify.kernel --case T=1",
    }
    kernel = {
        "verdict": "fail",
        "layers": {"1": "pass", "2": "fail"},
        "cases": 3,
        "executed": 3,
        "findings": [finding],
        "tiers": {},
        "adequacy": {},
        "environment": {},
        "seconds": 1.0,
    }
    (here / "run" / "kernel.json").write_text(json.dumps(kernel))
    code, out, _ = evals("--suite", suite, *servers(wrong={5}), "--out", "run")
    assert code == 1
    found = result(here / "run")
    assert (found["verdict"], found["kernel"]["verdict"]) == ("fail", "fail")
    assert found["suites"][0]["verdict"] == "pass"
    lines = out.splitlines()
    assert "layer 1  pass  0 of 3 cases wrong" in lines
    assert "layer 2  fail  1 of 3 cases wrong" in lines

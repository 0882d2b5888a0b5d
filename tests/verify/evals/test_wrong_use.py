import pytest

from tests.verify.evals.sums import result, solver

URL, OTHER = "http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--arms", "base"], "name two different arms"),
        (["--arms", "base,base"], "name two different arms"),
        (["--arms", "a,b,c"], "name two different arms"),
        (["--arms", "base,../x"], "name two different arms"),
        (["--arms", "base,new"], "arm 'new' is not known"),
        (["--arm", "base"], "write NAME=URL or NAME=module:function"),
        (["--arm", "other=a:b"], "is not one of --arms base,pr"),
        (["--arm", "pr=a:b", "--arm", "pr=a:c"], "given twice"),
        (["--arm", "pr=nonsense"], "neither a URL nor module:function"),
        (["--arm", "pr=127.0.0.1:8000"], "neither a URL nor module:function"),
        (["--arm", "pr=ftp://a"], "no http address"),
        (["--arm", f"base={URL}"], "an embedded model and a server"),
        (["--arm", f"base={URL}", "--arm", f"pr={URL}"], "cannot be compared with itself"),
        (["--arm", "base=http://localhost:9", "--arm", f"pr={URL}"], "compared with itself"),
        (["--arm", f"base={URL}", "--arm", f"pr={OTHER}"], "no default suite; add --suite gsm8k"),
        (["--arm", f"base={URL}", "--arm", f"pr={OTHER}", "--suite", "mini-aime"], "kind embedded"),
        (
            ["--arm", f"base={URL}", "--arm", f"pr={OTHER}", "--executor", "ray"],
            "both arms are servers",
        ),
        (["--executor", "slurm"], "--executor"),
        (["--suite", "gsm9k"], "choose one of"),
        (["--suite", "mini-aime", "--suite", "mini-aime"], "given twice"),
        (["--data", "x"], "write SUITE=PATH"),
        (["--data", "mini-aime=/nowhere"], "cannot be read"),
        (["--data", "x=/dev/null"], "no such suite in this run"),
        (["--data", "mini-aime=/dev/null"], "is pinned to"),
        (["--margin", "wide"], "is not a number"),
        (["--margin", "nan"], "does not lie between"),
        (["--margin", "0"], "does not lie between"),
        (["--margin", "x=2"], "no such suite in this run"),
        (["--limit", "0"], "--limit"),
        (["--limit", "x"], "--limit"),
        (["--limit", "3", "--full"], "give one of them"),
        (["--concurrency", "0"], "--concurrency"),
        (["--repeats", "0"], "--repeats"),
        (["--seed", "x"], "--seed"),
        (["--extend-capped", "64"], "no more than the 64 tokens"),
        (["--certificate", "--repeats", "2"], "judges one answer a question"),
        (["--model", "x"], "both arms are embedded"),
        (["--out", "/proc/nowhere"], "cannot be made"),
        (["--arm", "pr=nowhere:f"], "nowhere:f"),
        (["--nonsense"], "No such option"),
        (["--margin", "2", "compare", "a", "b"], "write compare first"),
        (["nonsense"], "No such command"),
    ],
)
def test_wrong_use_is_one_line(evals, here, words, message):
    code, out, err = evals(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not any((here / "runs").glob("*")) if (here / "runs").exists() else True


def test_servers_that_are_not_there_leave_nothing_behind(evals, suite, here):
    code, _, err = evals(
        "--suite", suite, "--arm", f"base={URL}", "--arm", f"pr={OTHER}", "--out", "run"
    )
    assert code == 2
    assert "no server answers at http://127.0.0.1" in err
    assert err.count("\n") == 1
    assert not (here / "run").exists()


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[arms", "verify.toml"),
        ("[arm.base]", "unknown field `arm`"),
        ("[arms.base]\nurl = 'x'", "unknown field `url`"),
        ("[arms.base]\nbase_url = 'http://a'\nkernel = 'a:b'", "both base_url and kernel"),
        ("[margins]\nmini-aime = 'x'", "Expected `float`"),
        ("[margins]\nmini-aime = 200.0", "does not lie between"),
    ],
)
def test_a_wrong_verify_toml_is_one_line(evals, here, toml, message):
    (here / "verify.toml").write_text(toml)
    code, out, err = evals("--suite", "mini-aime")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_verify_toml_defines_arms_suites_and_margins(evals, suite, fake_server, here):
    one, other = (fake_server(solver(fake_server.completion)) for _ in range(2))
    (here / "verify.toml").write_text(
        f"""
[arms.old]
base_url = "{one.url}"
[arms.new]
base_url = "{other.url}"
model = "tiny"
[suites.adding]
path = "{suite}"
[margins]
sums = 4.0
"""
    )
    code, _, err = evals("--arms", "old,new", "--suite", "adding", "--out", "run")
    assert (code, err) == (0, "")
    manifest = result(here / "run")["manifest"]
    assert list(manifest["arms"]) == ["old", "new"]
    assert manifest["suites"]["sums"]["margin_pt"] == 4
    assert manifest["suites"]["sums"]["margin_from"] == "verify.toml"

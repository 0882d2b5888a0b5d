"""`score`: what it says of kernels, which texts it takes, and what it refuses."""

import json

import pytest

from verify.likelihood import embedded

KERNELS = """
from kernel import chain

def unrotated(x, weight, cos_sin, positions, **options):
    chain(x, weight, cos_sin, positions * 0, **options)

def refuses(*args, **options):
    from kernel.contract import ContractError
    raise ContractError("not this one")

def raises(*args, **options):
    raise RuntimeError("bad launch")

def junk(x, weight, cos_sin, positions, *, q, scales, **options):
    q.view(dtype=scales.dtype).fill_(0x7F)
    scales.fill_(0xFF)
"""
FOUR = [
    {"prompt": "Jon has 53 shells. How many shells does Jon have now?", "completion": c}
    for c in ("53-25=28\n#### 28", "53+1=54\n#### 54", "53\n#### 53", "1\n#### 1")
]


@pytest.fixture
def texts(here):
    path = here / "texts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in FOUR))
    return path


@pytest.fixture
def kernels(here, monkeypatch):
    (here / "mine_scored.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(str(here))


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(embedded, "answers", lambda jobs: [embedded._answer(job) for job in jobs])


def document(folder):
    return json.loads((folder / "score.json").read_text())


@pytest.mark.usefixtures("kernels")
def test_a_wrong_kernel_fails_in_a_process_of_its_own(evals, here, texts):
    code, out, err = evals(
        "score", "--arm", "pr=mine_scored:unrotated", "--texts", texts, "--out", "run"
    )
    assert (code, err) == (1, "")
    assert "beyond the margin of 0.0001 nats a token" in out
    found = document(here / "run")
    (kind,) = found["texts"]
    assert (kind["source"], kind["items"], kind["noise"]["identical"]) == ("a file", 4, True)
    assert kind["difference"]["mean"] > 0.1
    assert kind["scored"][0]["divergence"]["base"] != kind["scored"][0]["divergence"]["pr"]
    planned = json.loads((here / "run" / "score-manifest.json").read_text())
    assert planned["margin_nats"] == found["margin_nats"] == 1e-4
    assert found["manifest"]["told"]["base"]["calls"].keys() == {"chain"}


@pytest.mark.usefixtures("kernels", "in_this_process")
@pytest.mark.parametrize(
    ("kernel", "code", "words"),
    [
        ("kernel:chain", 0, "a loss of 0.0001 nats a token is ruled out"),
        ("mine_scored:refuses", 4, "pr never took the fused path"),
        ("mine_scored:raises", 4, "arm pr: RuntimeError: bad launch"),
        ("mine_scored:junk", 1, "pr gives figures that are no numbers, 4 times in 4"),
    ],
)
def test_what_it_says_of_kernels(evals, texts, kernel, code, words):
    found, out, err = evals("score", "--arm", f"pr={kernel}", "--texts", texts, "--out", "run")
    assert (found, err) == (code, "")
    assert words in out


@pytest.mark.usefixtures("in_this_process")
def test_worked_solutions_and_where_there_are_none_what_base_answers(evals, here):
    code, out, _ = evals(
        "score", "--arm", "pr=kernel:chain", "--suite", "mini-gsm8k", "--suite", "mini-gpqa",
        "--limit", "3", "--out", "run", "--json", "copy.json",
    )  # fmt: skip
    assert code == 0
    found = document(here / "run")
    assert json.loads((here / "copy.json").read_text()) == found
    assert [(each["name"], each["source"]) for each in found["texts"]] == [
        ("mini-gsm8k", "worked solutions"),
        ("mini-gpqa", "answers of base"),
    ]
    assert found["texts"][1]["nll"]["base"] < 1  # its own answers are what it finds likely
    assert "bit for bit" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--arm", "base=http://h:1", "--arm", "pr=http://h:2"], "servers have no default suite"),
        (
            [
                "--arm",
                "base=http://h:1",
                "--arm",
                "pr=http://h:2",
                "--suite",
                "gsm8k_chat",
                "--data",
                "gsm8k_chat=chat.jsonl",
                "--unpinned",
            ],
            "gsm8k_chat is asked as a chat",
        ),
        (["--model", "m", "--texts", "texts.jsonl"], "--model names the model of a server"),
        (["--texts", "texts.jsonl", "--suite", "mini-aime"], "--suite and --texts name texts each"),
        (["--texts", "absent.jsonl"], "--texts absent.jsonl cannot be read"),
        (["--texts", "empty.jsonl"], "holds no line"),
        (["--texts", "twice.jsonl"], "lines 1 and 2 are both item"),
        (["--texts", "bad.jsonl"], "bad.jsonl: line 1: "),
        (["--texts", "blank.jsonl"], "line 1 has an empty completion"),
        (["--texts", "words.jsonl"], "no token for 'pi'"),
        (["--arm", "pr=absent_module:f", "--texts", "texts.jsonl"], "--arm pr=absent_module:f"),
        (["--margin", "0"], "Invalid value for '--margin'"),
        (["--out", "full"], "full holds a score.json already"),
    ],
)
@pytest.mark.usefixtures("texts", "in_this_process")
def test_wrong_use(evals, here, words, said):
    for name, content in {
        "chat": "".join(
            json.dumps({"question": str(n), "answer": f"#### {n}"}) + "\n" for n in range(9)
        ),
        "empty": "\n",
        "twice": (json.dumps(FOUR[0]) + "\n") * 2,
        "bad": '{"prompt": 3}',
        "blank": '{"prompt": "x", "completion": " "}',
        "words": '{"prompt": "What is pi?", "completion": "3"}',
    }.items():
        (here / f"{name}.jsonl").write_text(content)
    (here / "full").mkdir()
    (here / "full" / "score.json").write_text("{}")
    code, out, err = evals("score", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_the_first_texts_of_a_file_are_the_same_in_any_order(evals, here, texts, monkeypatch):
    asked = []

    def answers(jobs):
        asked.append(jobs[0].texts)
        return [embedded.Answer(reason="not scored")] * 3

    monkeypatch.setattr(embedded, "answers", answers)
    for order in (FOUR, FOUR[::-1]):
        texts.write_text("".join(json.dumps(line) + "\n" for line in order))
        code, *_ = evals("score", "--texts", texts, "--limit", "2", "--out", f"run{len(asked)}")
        assert code == 4
    assert asked[0] == asked[1]
    assert len(asked[0]) == 2
    assert document(here / "run0")["verdict"] == "invalid"

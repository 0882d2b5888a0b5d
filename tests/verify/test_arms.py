import asyncio
import os
import subprocess
import sys

import msgspec
import pytest

from evals.suite import load
from verify import embedded as embedded_process
from verify.arms import Completion, EmbeddedArm, Failure, normalised
from verify.command import UserError

KERNELS = """
import os, sys
from kernel import chain

def prints(*args, **options):
    print("hello from the kernel")
    chain(*args, **options)

def raises(x, *args, **options):
    raise RuntimeError("bad\\nlaunch \\x1b[31m")

def dies(*args, **options):
    os._exit(7)

def killed(*args, **options):
    os.kill(os.getpid(), 9)

def reads(*args, **options):
    assert sys.stdin.readline() == ""
    chain(*args, **options)

def hangs(*args, **options):
    print("hanging", flush=True)
    __import__("time").sleep(600)

def refuses(*args, **options):
    from kernel.contract import ContractError
    raise ContractError("T = 32 is too large")
"""


@pytest.fixture
def spec():
    return load("mini-gpqa").spec


@pytest.fixture(scope="module")
def prompts():
    return [item.prompt for item in load("mini-gpqa").questions().items[:3]]


async def collect(arm, spec, prompts):
    try:
        await arm.start()
        return [found async for found in arm.answers(spec, prompts, range(len(prompts)))]
    finally:
        await arm.close()


@pytest.fixture
def embedded(tmp_path, monkeypatch, spec, prompts):
    """Run the embedded model with one of KERNELS; gives the arm and its answers by index."""
    (tmp_path / "mine_kernels.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(kernel):
        arm = EmbeddedArm("pr", kernel, tmp_path / "pr.log")
        return arm, dict(asyncio.run(collect(arm, spec, prompts)))

    yield run
    sys.modules.pop("mine_kernels", None)


def test_the_chain_answers_and_shows_no_problem(embedded, tmp_path):
    arm, answers = embedded(None)
    assert sorted(answers) == [0, 1, 2]
    assert all(isinstance(found, Completion) and found.text for found in answers.values())
    assert arm.problems("mini-gpqa") == []
    assert set(arm.settings()["calls"]) == {"chain"}
    assert not (tmp_path / "pr.log").exists()


def test_a_users_kernel_answers_and_its_calls_are_counted(embedded, tmp_path):
    chain, expected = embedded(None)
    arm, answers = embedded("mine_kernels:prints")
    assert answers == expected
    assert arm.problems("mini-gpqa") == []
    assert arm.settings()["calls"]["fused"] > 0
    assert arm.settings()["calls_by_rows"]["fused"].keys() <= {f"T={n}" for n in range(1, 33)}
    assert chain.settings()["weights_sha256"] == arm.settings()["weights_sha256"]
    # what it prints does not get into the answers
    assert "hello from the kernel" in (tmp_path / "pr.log").read_text()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("raises", "RuntimeError: bad launch \ufffd[31m"),
        ("dies", "ended by exit code 7"),
        ("killed", "ended by signal SIGKILL"),
    ],
)
def test_a_kernel_that_breaks_leaves_questions_unanswered(embedded, kernel, message):
    arm, answers = embedded(f"mine_kernels:{kernel}")
    assert arm.problems("mini-gpqa") == [], "it was called: what came of it is told by the failures"
    assert sorted(answers) == [0, 1, 2]
    assert all(isinstance(found, Failure) for found in answers.values())
    assert message in answers[0].message


def test_what_broke_an_arm_is_said_of_every_further_suite(tmp_path, monkeypatch, spec, prompts):
    (tmp_path / "mine_kernels.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    arm = EmbeddedArm("pr", "mine_kernels:raises", tmp_path / "pr.log")

    async def twice():
        try:
            await arm.start()
            return [
                [found async for found in arm.answers(spec, prompts, range(len(prompts)))]
                for _ in range(2)
            ]
        finally:
            await arm.close()

    first, second = asyncio.run(twice())
    assert first == second
    assert "bad launch" in first[0][1].message


def test_a_kernel_that_was_never_taken_is_a_problem(embedded):
    arm, answers = embedded("mine_kernels:refuses")
    assert all(isinstance(found, Completion) for found in answers.values())
    (problem,) = arm.problems("mini-gpqa")
    assert "pr never took the fused path: " in problem
    assert "T = 32 is too large" in problem


def test_a_kernel_that_reads_its_input_gets_none(embedded):
    _, answers = embedded("mine_kernels:reads")
    assert all(isinstance(found, Completion) for found in answers.values())


def test_a_kernel_that_hangs_leaves_questions_unanswered(tmp_path, monkeypatch, spec, prompts):
    (tmp_path / "mine_kernels.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    arm = EmbeddedArm("pr", "mine_kernels:hangs", tmp_path / "pr.log")

    async def hurried():
        try:
            await arm.start()
            arm._patience_s = 2.0  # importing torch may take longer
            return [found async for found in arm.answers(spec, prompts, range(len(prompts)))]
        finally:
            await arm.close()

    found = asyncio.run(hurried())
    assert [index for index, _ in found] == [0, 1, 2]
    assert all("hung: no call of its kernel returned for 2 s" in said.message for _, said in found)


def test_a_kernel_that_hangs_ends_with_its_run(tmp_path, spec, prompts):
    (tmp_path / "mine_kernels.py").write_text(KERNELS)
    log = tmp_path / "child.log"
    setup = msgspec.json.encode(embedded_process.Setup("pr", "mine_kernels:hangs"))
    job = msgspec.json.encode(embedded_process.Job(list(prompts), spec.sampling.max_tokens))
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", "from verify.embedded import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        )
    process.stdin.write(setup + b"\n" + job + b"\n")
    process.stdin.flush()
    assert b"Ready" in process.stdout.readline()
    process.stdin.close()  # as if the run had been killed
    assert process.wait(60) == 1
    process.stdout.close()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [("nowhere:f", "--arm pr=nowhere:f"), ("mine_kernels:absent", "has no function 'absent'")],
)
def test_a_kernel_that_is_not_there_is_one_line(embedded, kernel, message):
    with pytest.raises(UserError) as caught:
        embedded(kernel)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://localhost:8000", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("https://Example.com/api/v2", "https://example.com/api/v2"),
        ("http://[::1]:80", "http://[::1]:80/v1"),
    ],
)
def test_addresses_have_one_form(given, expected):
    assert normalised(given) == expected


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://a:port", "http://a:99999", "a:80"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(UserError, match="no http address"):
        normalised(url)

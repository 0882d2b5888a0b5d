"""The program against servers on loopback: what was asked, in which order, and what is told."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.verify.test_launched import free_port, listens
from verify.bench import command
from verify.bench.serve import client, delay, program
from verify.command import UserError
from verify.verdict import Verdict

SCRIPT = Path(__file__).with_name("scripted.py")
SMALL = ("--input-len", "5", "--output-len", "6", "--requests", "2", "--out", "run")
DRAWN = program._page
ONCE = ("--order", "base,pr")
"""Half the starts, where they do not matter."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own, a client that notes every arrival, no look at its delay, no page."""
    monkeypatch.chdir(tmp_path)
    received = client._Timed.data_received

    def noting(self, data):
        received(self, data)
        with Path("acks").open("ab") as file:
            file.write(b".")

    async def measure(streams):
        return delay.Delay(streams, 1, 0.05, 0.1)

    monkeypatch.setattr(client._Timed, "data_received", noting)
    monkeypatch.setattr(delay, "measure", measure)
    monkeypatch.setattr(program, "_page", str)
    return tmp_path


def words(port, *more):
    return [sys.executable, "-S", str(SCRIPT), str(port), "acks=acks", "log=log", *more]


@pytest.fixture
def launched(here):
    """Write a verify.toml that launches both arms; gives their ports."""

    def write(base=(), pr=(), differ=("launch",), more=""):
        ports = free_port(), free_port()
        toml = f"differ = {json.dumps(list(differ))}\n"
        for name, port, said in zip(("base", "pr"), ports, (base, pr), strict=True):
            toml += (
                f"[arms.{name}]\nbase_url = 'http://127.0.0.1:{port}'\n"
                f"launch = {json.dumps(words(port, *said))}\n{more}\n"
            )
        (here / "verify.toml").write_text(toml)
        return ports

    return write


def serve(*options):
    found = CliRunner().invoke(
        command, ["serve", *SMALL, *options], standalone_mode=False, catch_exceptions=False
    )
    return found.return_value, found.output, json.loads(Path("run/serving.json").read_text())


def logged(port):
    lines = map(json.loads, Path("log").read_text().splitlines())
    return [line for line in lines if line["port"] == str(port)]


def test_fresh_servers_take_turns_and_are_asked_the_same_in_every_start(launched):
    ports = launched(base=["flush"], pr=["flush"])
    verdict, out, found = serve()
    assert verdict in {Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE}, out
    starts = [line["port"] for line in map(json.loads, Path("log").read_text().splitlines())
              if "started" in line]  # fmt: skip
    assert starts == [str(ports[n]) for n in (0, 1, 1, 0)]
    for port in ports:
        assert not listens(port)
        # a warm-up and two that count, in each of two starts
        kinds = ["flush" if "flush" in line else "started" if "started" in line else "asked"
                 for line in logged(port)]  # fmt: skip
        assert kinds == 2 * ["started", *3 * ["flush", "asked"]]
    asked = {port: [line for line in logged(port) if "prompt" in line] for port in ports}
    prompts = [line["prompt"] for line in asked[ports[0]]]
    assert prompts[:3] == prompts[3:] == [line["prompt"] for line in asked[ports[1]]][:3]
    assert len(set(map(tuple, prompts))) == 3
    assert {len(prompt) for prompt in prompts} == {5}
    one = asked[ports[1]][0]
    told = ("max_tokens", "min_tokens", "ignore_eos", "temperature", "stream", "cache_prompt")
    assert [one[name] for name in told] == [6, 6, True, 0.0, True, False]
    assert one["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert found["manifest"]["order"] == ["base", "pr", "pr", "base"]
    assert found["manifest"]["fresh"] is True
    assert found["manifest"]["arms"]["pr"]["starts"] == 2
    (load,) = found["loads"]
    assert load["invalid"] == []
    assert load["ratio"]["df"] == 2


def test_every_request_is_written_down_with_its_figures_and_shown(launched, monkeypatch):
    monkeypatch.setattr(program, "_page", DRAWN)
    launched(base=["chunk=2"], pr=["chunk=2"])
    _, out, found = serve(*ONCE)
    assert len(found["requests"]) == 2 * 3
    for each in found["requests"]:
        assert each["heard"] == {
            "tokens": 6, "prompt_tokens": 3, "cached_tokens": 0, "steps": None,
            "counted_by": "usage",
        }  # fmt: skip
        figures = each["figures"]
        assert (figures["chunks"], figures["first_tokens"]) == (4, 1)
        assert min(figures[n] for n in ("tokens_per_s", "ttft_ms", "gap_ms", "gap_p99_ms")) > 0
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "base, start 1" in page
    assert "run/report.html" in out
    assert found["client_delay"]["median_ms"] == 0.05
    assert "median 0.050 ms" in out
    assert "pr, start 1" in out
    for name in ("base", "pr"):
        assert f"{name} has no way to empty its prefix cache" in out


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("cut=2", "1 of 3 requests of pr failed (connection)"),
        ("error=1", "1 of 3 requests of pr failed (http_500): warm-up 1 of start 1"),
    ],
)
def test_what_goes_wrong_once_makes_the_run_invalid_by_name(launched, word, said):
    ports = launched(pr=[word])
    toml = Path("verify.toml").read_text()  # wrong in its first start only
    assert toml.count(word) == 1
    verdict, out, found = serve(*ONCE)
    assert verdict is Verdict.INVALID, out
    assert said in " ".join(found["loads"][0]["invalid"])
    assert said in out
    assert not any(map(listens, ports))


@pytest.mark.parametrize("word", ["steps=3", "drafts=3"])
def test_acceptance_is_told_and_must_be_the_same(launched, word):
    launched(base=[word], pr=[word])
    _, _, found = serve(*ONCE)
    lengths = {each["acceptance"] for each in found["requests"]}
    assert lengths == ({6 / 3} if word == "steps=3" else {1 + 2})
    assert found["loads"][0]["invalid"] == []


def test_a_parameter_that_a_server_refuses_is_left_out(launched):
    launched(base=["refuses=return_meta_info"], pr=["refuses=return_meta_info"])
    _, out, found = serve(*ONCE)
    assert found["loads"][0]["invalid"] == [], out


def test_settings_in_which_the_arms_differ_must_be_declared(launched):
    launched(pr=["chunk=1"], differ=())
    verdict, out, _ = serve(*ONCE)
    assert verdict is Verdict.INVALID
    assert "base and pr differ in launch" in out


def test_as_many_as_are_in_flight_go_out_together(launched):
    ports = launched()
    _, _, found = serve("--concurrency", "1,2", "--order", "pr,base")
    assert [load["concurrency"] for load in found["loads"]] == [1, 2]
    seen = [(r["load"], r["warm_up"], r["number"]) for r in found["requests"] if r["arm"] == "pr"]
    assert seen == [
        (1, True, 0), (1, False, 0), (1, False, 1),
        (2, True, 0), (2, True, 1), (2, False, 0), (2, False, 1),
    ]  # fmt: skip
    prompts = [tuple(line["prompt"]) for line in logged(ports[0]) if "prompt" in line]
    assert len(set(prompts)) == len(prompts) == 7
    assert "one start of each" in found["loads"][0]["reason"]


def test_a_prompt_of_ones_own_is_asked_as_it_is(launched, here):
    ports = launched()
    (here / "p.txt").write_text("Why?\n")
    serve("--prompt", "p.txt", *ONCE)
    assert {line["prompt"] for line in logged(ports[0]) if "prompt" in line} == {"Why?\n"}


def test_keys_stand_in_nothing_that_is_written(launched, here, monkeypatch):
    monkeypatch.setenv("KEY", "sk-very-secret")
    launched(
        base=["error=2", "echo"], pr=["error=2", "echo"],
        more='headers = { Authorization = "Bearer $KEY" }\n',
    )  # fmt: skip
    _, out, found = serve(*ONCE)
    assert "no memory left ***" in found["requests"][1]["error"]
    for text in (out, *(path.read_text() for path in (here / "run").iterdir())):
        assert "sk-very-secret" not in text


@pytest.fixture
def up(here):  # noqa: ARG001 - it runs in that folder
    """Two servers that are up already, as options."""
    ports = free_port(), free_port()
    processes = [subprocess.Popen(words(port)) for port in ports]
    ends = time.monotonic() + 60
    while not all(map(listens, ports)) and time.monotonic() < ends:
        time.sleep(0.01)
    named = zip(("base", "pr"), ports, strict=True)
    yield [f"--arm={name}=http://127.0.0.1:{port}" for name, port in named]
    for process in processes:
        process.kill()
        process.wait()


def test_servers_that_stay_up_have_one_start_each_and_nothing_is_decided(up):
    verdict, out, found = serve(*up)
    assert verdict is Verdict.INCONCLUSIVE
    assert "one start of each" in out
    assert found["manifest"]["order"] == ["base", "pr"]
    assert found["loads"][0]["ratio"]["interval"] is None


def test_a_server_that_is_not_there_is_told_before_the_other_is_measured(up):
    base, _ = up
    with pytest.raises(UserError, match="pr"):
        serve(base, f"--arm=pr=http://127.0.0.1:{free_port()}")
    assert not Path("run/serving.json").exists()


def test_their_starts_cannot_be_ordered(up):
    with pytest.raises(UserError, match="one start each"):
        serve(*up, "--order", "base,pr,pr,base")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "arm base is an embedded model"),
        (("--order", "base,base"), "name base and pr"),
        (("--requests", "6", "--concurrency", "4"), "give 8"),
        (("--prompt", "empty.txt"), "is empty"),
        (("--out", "empty.txt/run"), "cannot be made"),
    ],
)
def test_wrong_use_is_one_line(launched, here, options, said):
    (here / "empty.txt").write_text(" \n")
    if options:
        launched()
    with pytest.raises(UserError, match=said) as error:
        serve(*options)
    assert "\n" not in str(error.value)
    assert not (here / "run").exists()


def test_a_seed_below_zero_is_wrong_use(launched):
    launched()
    with pytest.raises(click.BadParameter, match="-1 is not in the range"):
        serve("--seed", "-1")


def test_a_folder_that_holds_a_measurement_is_left_alone(launched, here):
    launched()
    (here / "run").mkdir()
    (here / "run" / "serving.json").write_text("{}")
    with pytest.raises(UserError, match="holds a serving"):
        serve()


def test_an_interrupted_run_keeps_what_it_has_and_is_invalid(launched, monkeypatch):
    launched()
    from verify.bench.serve import conduct

    accepted, seen = conduct._accepted, []

    def interrupting(*words):
        seen.append(words)
        if len(seen) == 5:
            raise KeyboardInterrupt
        return accepted(*words)

    monkeypatch.setattr(conduct, "_accepted", interrupting)
    with pytest.raises(click.Abort):
        CliRunner().invoke(command, ["serve", *SMALL], standalone_mode=False,
                           catch_exceptions=False)  # fmt: skip
    found = json.loads(Path("run/serving.json").read_text())
    assert len(found["requests"]) == 4
    assert found["verdict"] == "invalid"
    assert "interrupted" in found["loads"][0]["reason"]


def test_a_start_that_fails_leaves_what_came_before(launched):
    launched(pr=["dies"])
    with pytest.raises(UserError, match="arm pr: its server ended"):
        serve(*ONCE)
    found = json.loads(Path("run/serving.json").read_text())
    assert {each["arm"] for each in found["requests"]} == {"base"}
    assert found["verdict"] == "invalid"
    assert "it ended early: arm pr" in found["loads"][0]["reason"]

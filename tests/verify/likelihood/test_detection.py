"""What notices a kernel: each way by itself, and the page that says so."""

import pytest
from click.testing import CliRunner

from verify.command import UserError
from verify.faults.catalogue import CATALOGUE
from verify.faults.honest import VARIANTS
from verify.faults.record import Family
from verify.likelihood import detection
from verify.likelihood.__main__ import command
from verify.likelihood.detection import Job, Seen

CACHED = (
    detection._grid, detection._suite, detection._texts, detection._base_scores,
    detection._base_right,
)  # fmt: skip
WRONG, HONEST = Job("fault", "forward_rotation"), Job("honest", "reversed order")


@pytest.fixture
def small(monkeypatch):
    """Little of everything."""
    for name, size in {"CASES": 8, "TEXTS": 8, "QUESTIONS": 12, "BATCH": 12}.items():
        monkeypatch.setattr(detection, name, size)
    for cached in CACHED:
        cached.cache_clear()
    yield
    for cached in CACHED:
        cached.cache_clear()


@pytest.mark.usefixtures("small")
def test_a_wrong_sign_is_seen_by_all_but_layer_2_and_an_honest_kernel_by_none():
    seen = detection.detect(WRONG)
    assert seen.layers == (1, None)  # the bytes are right for the kernel's own wrong output
    tokens = [len(each.tokens) for each in detection._base_scores()]
    assert seen.tokens in {sum(tokens[:4]), sum(tokens)}
    assert 5 <= seen.questions <= 12  # five losses in a row are the fewest that win
    assert detection.detect(HONEST) == Seen(HONEST)


@pytest.mark.usefixtures("small")
def test_a_rounded_down_scale_is_seen_by_layer_2_alone():
    assert detection._layers(Job("fault", "scale_floored")) == (None, 1)


@pytest.mark.usefixtures("small")
def test_a_kernel_that_raises_in_the_model_is_told_with_what_the_layers_saw(monkeypatch):
    def build(_):
        def fails(*_args, **_options):
            raise RuntimeError("bad\nlaunch")

        return fails

    monkeypatch.setattr(Job, "build", build)
    seen = detection.detect(WRONG)
    assert seen.layers[0] == 1
    assert (seen.raised, seen.tokens, seen.questions) == ("RuntimeError: bad launch", None, None)


def test_every_fault_is_hosted_but_those_that_kill_or_are_slow():
    jobs = detection.hosted([])
    assert len(set(jobs)) == len(jobs)
    hosted = {job.name for job in jobs if job.kind == "fault"}
    assert set(CATALOGUE) - hosted == {
        name for name, fault in CATALOGUE.items() if fault.kills or fault.slow
    }
    assert {job.family for job in jobs} <= {*Family, "honest"}
    assert {job.name for job in detection.hosted(["honest"])} <= VARIANTS.keys()
    assert {job.family for job in detection.hosted(["scale"])} >= {"scale"}


@pytest.fixture
def judged(monkeypatch):
    """Run the program on made-up judgements."""

    def call(seen, *words):
        monkeypatch.setattr(detection, "hosted", lambda _: [each.job for each in seen])
        monkeypatch.setattr(detection, "detect_all", lambda *_: reversed(seen))
        return CliRunner().invoke(command, list(words), standalone_mode=False)

    return call


@pytest.mark.parametrize(
    ("fault", "honest", "verdict"),
    [
        (Seen(WRONG, (3, None)), Seen(HONEST), "pass"),
        (Seen(WRONG, (None, None), 900), Seen(HONEST), "pass"),
        (Seen(WRONG, raised="ValueError: x"), Seen(HONEST), "pass"),
        (Seen(WRONG), Seen(HONEST), "fail"),
        (Seen(WRONG, (1, 1)), Seen(HONEST, (None, None), None, 9), "fail"),
    ],
)
def test_it_passes_if_every_fault_is_noticed_and_no_honest_kernel(judged, fault, honest, verdict):
    assert judged([fault, honest]).return_value == verdict


def test_the_page_has_a_row_for_each_kernel_in_the_order_of_the_catalogue(judged, tmp_path):
    page = tmp_path / "detection.md"
    seen = [Seen(WRONG, (1, None), 1200, 7), Seen(HONEST)]
    outcome = judged(seen, "--only", "rotation", "--publish", str(page))
    content = page.read_text(encoding="utf-8")
    first, second = content.splitlines()[-2:]
    assert first == (
        "| forward_rotation | Rotates forward instead of back | 1 case | - | 1,200 tokens "
        "| 7 questions |"
    )
    assert second.startswith("| reversed order | *nothing*: ")
    assert second.endswith("| - | - | - | - |")
    assert "--publish docs/detection.md --only 'rotation'`" in content
    assert "Of 1 faults: layer 1 1, layer 2 0, likelihood 1, accuracy 1; 0 raise" in content
    assert first in outcome.output


def test_a_word_that_names_nothing_is_told():
    outcome = CliRunner().invoke(command, ["--only", "no_such_fault"], standalone_mode=False)
    assert isinstance(outcome.exception, UserError)
    assert "no_such_fault" in str(outcome.exception)

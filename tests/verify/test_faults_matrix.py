"""`matrix`: its verdict, and the page that it writes."""

import pytest
from click.testing import CliRunner

from verify.command import UserError
from verify.faults.program import command
from verify.likelihood import detection
from verify.likelihood.detection import Job, Seen

WRONG, HONEST = Job("fault", "forward_rotation"), Job("honest", "reversed order")


@pytest.fixture
def judged(monkeypatch):
    """Run the program on made-up judgements."""

    def call(seen, *words):
        monkeypatch.setattr(detection, "chosen", lambda _: [each.job for each in seen])
        monkeypatch.setattr(detection, "detect_all", lambda *_: reversed(seen))
        return CliRunner().invoke(command, ["matrix", *words], standalone_mode=False)

    return call


@pytest.mark.parametrize(
    ("fault", "honest", "verdict"),
    [
        (Seen(WRONG, (3, None)), Seen(HONEST), "pass"),
        (Seen(WRONG, (None, None), 900), Seen(HONEST), "pass"),
        (Seen(WRONG, likelihood="ValueError: x"), Seen(HONEST), "pass"),
        (Seen(WRONG), Seen(HONEST), "fail"),
        (Seen(WRONG, (1, 1)), Seen(HONEST, (None, None), None, 9), "fail"),
    ],
)
def test_it_passes_if_every_fault_is_noticed_and_no_honest_kernel(judged, fault, honest, verdict):
    assert judged([fault, honest]).return_value == verdict


def test_the_page_has_a_row_for_each_kernel_and_why_an_arm_ends(judged, tmp_path):
    page = tmp_path / "detection.md"
    seen = [
        Seen(HONEST),
        Seen(WRONG, (1, None), 1200, 7),
        Seen(Job("fault", "aborts"), ("it died", None), "it died | here", "it died | here"),
        Seen(Job("fault", "scale_floored"), (None, 2)),
    ]
    outcome = judged(seen, "--only", "rotation", "--publish", str(page))
    content = page.read_text(encoding="utf-8")
    rows = [line for line in content.splitlines() if line.startswith("| ")][-4:]
    assert rows[0].startswith("| reversed order | honest | *nothing*: ")
    assert rows[0].endswith("| - | - | - | - |")
    assert rows[1] == (
        "| forward_rotation | rope | Rotates forward instead of back | 1 case | - | 1,200 tokens "
        "| 7 questions |"
    )
    assert rows[2].endswith("| ends | - | ends | ends |")
    assert rows[3].endswith("| - | 2 cases | - | - |")
    assert content.endswith("## What the model's arm cannot host\n\n- aborts: it died \\| here\n")
    assert "matrix --publish docs/detection.md --only 'rotation'`" in content
    assert (
        "Of 3 planted faults 3 are noticed, 1 of them only by layers 1 and 2: a run of the model "
        "would have missed them. Of 1 kernels that are right, 0 raised an alarm." in content
    )
    for line in (
        "| layer 1 | 2 | 0 | 1 |",
        "| layer 2 | 1 | 1 | - |",
        "| likelihood | 2 | 0 | 1 |",
        "| accuracy | 2 | 0 | 1 |",
    ):
        assert line in content
    assert rows[1] in outcome.output


def test_a_word_that_names_nothing_is_told():
    outcome = CliRunner().invoke(
        command, ["matrix", "--only", "no_such_fault"], standalone_mode=False
    )
    assert isinstance(outcome.exception, UserError)
    assert "no_such_fault" in str(outcome.exception)


def test_options_without_a_program_are_of_run():
    outcome = CliRunner().invoke(command, ["--only", "no_such_fault"], standalone_mode=False)
    assert isinstance(outcome.exception, UserError)
    assert "names no fault and no family" in str(outcome.exception)

"""What notices a kernel: each way by itself."""

import pytest
import torch

from verify.faults.catalogue import CATALOGUE
from verify.faults.honest import VARIANTS
from verify.faults.record import Family
from verify.likelihood import detection
from verify.likelihood.detection import Job, Seen
from verify.pool import Lost, Pool

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
    whole = detection.asked
    monkeypatch.setattr(detection, "asked", lambda task: whole(task)[:16])
    for cached in CACHED:
        cached.cache_clear()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a worker
    yield
    torch.set_num_threads(threads)
    for cached in CACHED:
        cached.cache_clear()


def detected(job):
    return Seen(job, **{way: detection.detect(job, way) for way in detection.WAYS})


@pytest.mark.usefixtures("small")
def test_a_wrong_sign_is_seen_by_all_but_layer_2_and_an_honest_kernel_by_none():
    seen = detected(WRONG)
    assert seen.layers == (1, None)  # the bytes are right for the kernel's own wrong output
    tokens = [len(each.tokens) for each in detection._base_scores()]
    assert seen.likelihood in {sum(tokens[:4]), sum(tokens)}
    assert 5 <= seen.accuracy <= 12  # five losses in a row are the fewest that win
    assert detected(HONEST) == Seen(HONEST)


@pytest.mark.usefixtures("small")
def test_a_rounded_down_scale_is_seen_by_layer_2_alone():
    assert detection.layers(Job("fault", "scale_floored")) == (None, 1)


class Finding:
    """Of layer 1."""

    layer = 1


@pytest.mark.parametrize(
    ("noticed_at", "asked"), [(None, 16), (3, 8), (12, 12)], ids=["never", "early", "late"]
)
@pytest.mark.usefixtures("small")
def test_what_nothing_has_noticed_gets_the_whole_grid(monkeypatch, noticed_at, asked):
    seen = []

    def judged(made, *_):
        seen.append(made)
        found = [Finding()] if len(seen) == noticed_at else []
        return type("Judgement", (), {"findings": found})

    monkeypatch.setattr(detection, "judged", judged)
    monkeypatch.setattr(detection.harness, "run", lambda *_: None)
    assert detection.layers(HONEST) == (noticed_at, None)
    assert len(seen) == asked


@pytest.mark.usefixtures("small")
def test_a_kernel_that_raises_in_the_model_is_told_with_what_the_layers_saw(monkeypatch):
    def build(_):
        def fails(*_args, **_options):
            raise RuntimeError("bad\nlaunch")

        return fails

    monkeypatch.setattr(Job, "build", build)
    seen = detected(WRONG)
    assert seen.layers[0] == 1
    assert (seen.likelihood, seen.accuracy) == ("RuntimeError: bad launch",) * 2


class Losing(Pool):
    """A pool that loses every job of a kernel that aborts or hangs."""

    def __init__(self, _start, _workers, limit_s):
        self.limit_s, self.workers = limit_s, []

    def answers(self, asked):
        for job, way in reversed(asked):
            answer = (None, 5) if way == "layers" else None
            if job.name in {"aborts", "hangs"}:
                answer = Lost(f"{way} lost after {self.limit_s((job, way)):g} s")
            yield (job, way), answer


def test_a_kernel_that_takes_its_process_down_leaves_a_row(monkeypatch):
    monkeypatch.setattr(detection, "Pool", Losing)
    hangs, wrong = Job("fault", "hangs"), Job("fault", "forward_rotation")
    lost = [f"{way} lost after 60 s" for way in detection.WAYS]
    assert list(detection.detect_all([hangs, wrong], 2)) == [
        Seen(wrong, (None, 5)),
        Seen(hangs, (lost[0], None), lost[1], lost[2]),
    ]


def test_only_a_kernel_that_never_comes_back_is_given_up_early():
    limits = {name: detection._limit_s((Job("fault", name), "layers")) for name in CATALOGUE}
    early = {name for name, limit in limits.items() if limit == detection.KILLED_S}
    assert early == {"aborts", "exits_in_silence", "hangs"}


def test_the_cases_refuse_what_the_kernel_should():
    detection._grid.cache_clear()
    assert "refuse" in {case.probe for case in detection._grid()}


def test_every_kernel_has_a_row():
    jobs = detection.chosen([])
    assert len(set(jobs)) == len(jobs)
    for kind, names in (("fault", CATALOGUE), ("honest", VARIANTS)):
        assert [job.name for job in jobs if job.kind == kind] == list(names)
    assert {job.family for job in jobs} == {*Family, "honest"}
    assert {job.name for job in detection.chosen(["honest"])} == VARIANTS.keys()
    assert {job.family for job in detection.chosen(["scale"])} == {"scale"}
    assert {job.name for job in detection.chosen(["scale_floored"])} >= {
        "scale_floored", "triton_scale_floored",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "by_a_layer", "in_the_model"),
    [
        (Seen(WRONG), False, False),
        (Seen(WRONG, (None, 3)), True, False),
        (Seen(WRONG, ("ended", None)), True, False),
        (Seen(WRONG, (None, None), 900), False, True),
        (Seen(WRONG, accuracy=9), False, True),
        (Seen(WRONG, likelihood="ValueError: x"), False, True),
    ],
)
def test_what_counts_as_noticed(seen, by_a_layer, in_the_model):
    assert (seen.by_a_layer, seen.in_the_model) == (by_a_layer, in_the_model)
    assert seen.noticed == (by_a_layer or in_the_model)

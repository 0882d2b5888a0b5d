from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner

from kernel import chain
from verify.bench import command, floor, latency, table
from verify.bench.latency import Contender, contenders, document, measured, verdict
from verify.bench.work import RefusedError
from verify.verdict import Verdict


def with_pdl(*tensors, pdl=False, **options):
    with_pdl.seen.add(pdl)
    chain(*tensors, **options)


with_pdl.seen = set()


def read(weight, kept):
    kept.copy_(floor.expected(weight))


def refusing(*_, **__):
    raise RefusedError("sm_75 is not supported")


def entrants():
    return [
        *contenders("mine", with_pdl, "fused"),
        *contenders("chain", chain, "chain"),
        latency.floor(read, floor.expected, pdl=False),
        latency.floor(read, floor.expected, pdl=True),
        Contender("other", "fused", refusing),
    ]


@pytest.fixture(scope="module")
def cells(clock, setup):
    # in the order above; the refusing one is never prepared
    found = measured(entrants(), setup, (1, 2), clock([6.0, 4.0, 12.0, 5.0, 3.0]))
    return [cell for group in found for cell in group]


def test_every_t_and_form_holds_every_contender(cells):
    assert [(c.tokens, c.form) for c in cells[::6]] == [
        (1, "bf16"), (1, "mxfp8"), (2, "bf16"), (2, "mxfp8")
    ]  # fmt: skip
    assert [c.contender for c in cells[:6]] == [
        "mine", "mine PDL", "chain", "read floor", "read floor PDL", "other"
    ]  # fmt: skip


def test_figure_is_the_median_of_the_sweeps_medians(cells):
    assert cells[0].sweeps_us == pytest.approx((6.0, 6.6, 7.2))
    assert cells[0].us == pytest.approx(6.6)


def test_candidates_stand_beside_chains_and_the_floor_of_the_same_attribute(cells):
    plain, pdl, unfused, bottom = cells[:4]
    assert {name: r.value for name, r in plain.beside.items()} == pytest.approx(
        {"chain": 0.5, "read floor": 1.2}
    )
    assert {name: r.value for name, r in pdl.beside.items()} == pytest.approx(
        {"chain": 1 / 3, "read floor PDL": 4 / 3}
    )
    assert set(unfused.beside) == {"read floor"}
    assert bottom.beside == {}


def test_pdl_is_offered_by_a_keyword(cells):
    assert with_pdl.seen == {False, True}
    assert [c.pdl for c in cells[:2]] == [False, True]
    assert len(list(contenders("chain", chain, "chain"))) == 1


def test_a_refusal_is_shown_and_is_no_failure(cells):
    assert cells[5].refused == "sm_75 is not supported"
    assert cells[5].us is None
    assert verdict(cells) is Verdict.PASS
    assert list(table.remarks(cells)) == [
        "refused: other at T=1 bf16 and 3 more: sm_75 is not supported"
    ]


def spoilt(*tensors, out=None, **options):
    """Right as long as it is judged, wrong once it is timed."""
    chain(*tensors, out=out, **options)
    spoilt.calls += 1
    if spoilt.calls > spoilt.right and out is not None:
        out[0, 0] = 7


def test_a_wrong_timed_output_fails_and_no_candidate_at_all_is_invalid(clock, setup):
    spoilt.calls, spoilt.right = 0, 2 * len(setup.buffers)
    [cells, *_] = measured(list(contenders("bad", spoilt, "fused")), setup, (1,), clock([1.0]))
    assert cells[0].wrong.startswith("sweep 1: out of weight buffer 0")
    assert verdict(cells) is Verdict.FAIL
    [cells, *_] = measured(entrants()[2:], setup, (1,), clock([1.0, 2.0, 3.0]))
    assert verdict(cells) is Verdict.INVALID


def test_document_is_json_and_says_how_it_was_measured(cells, setup):
    made = json.loads(json.dumps(document(cells, setup, {"gpu": "X"}, [{"clocks.sm": "1 MHz"}])))
    assert made["verdict"] == "pass"
    assert made["machine"] == {"gpu": "X"}
    assert made["method"]["launches_per_replay"] == 2 * len(setup.buffers)
    first = made["cells"][0]
    assert (first["contender"], first["us"]) == ("mine", 6.6)
    assert first["beside"]["read floor"]["ratio"] == 1.2
    assert made["cells"][5]["refused"] == "sm_75 is not supported"


def test_tables_show_each_form_with_times_and_ratios(cells):
    shown = list(table.tables(cells))
    assert [t.title for t in shown][::2] == [
        "BF16 output, microseconds a launch", "MXFP8 output, microseconds a launch"
    ]  # fmt: skip
    assert list(shown[0].columns[1].cells) == ["6.60", "4.40", "13.20", "5.50", "3.30", "-"]
    assert "mine / read floor" in list(shown[1].columns[0].cells)


@pytest.mark.parametrize("words", [[], ["latency"], ["--tokens", "1"]])
def test_without_a_gpu_one_line_says_so(words, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = CliRunner().invoke(command, words)
    assert found.exception.exit_code == 2
    assert str(found.exception) == (
        "latency needs a CUDA GPU and this machine has none; run it where there is"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tokens", "1,x"], "'1,x'; write numbers from 1"),
        (["--shape", "2,1024"], "'2,1024' is not three numbers"),
        (["--replays", "0"], "0 is not in the range"),
    ],
)
def test_wrong_words_are_refused(words, says):
    found = CliRunner().invoke(command, words)
    assert found.exit_code == 2
    assert says in found.output

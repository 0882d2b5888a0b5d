"""The source pull request's published numbers under our statistics: a page of tables.

`python -m verify.stats.source_numbers` writes `docs/source-numbers.md`. What was published:
https://github.com/sgl-project/sglang/pull/39957
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from scipy.stats import beta, fisher_exact, norm, ttest_ind

from verify.command import run
from verify.files import write_text
from verify.stats.bounded import BoundedMean
from verify.stats.exact import ExactDifference
from verify.stats.mcnemar import harm, mcnemar
from verify.stats.newcombe import newcombe_interval
from verify.stats.sizes import answers_needed, least_margin
from verify.stats.table import PairedTable
from verify.stats.tango import TangoDifference

if TYPE_CHECKING:
    from collections.abc import Iterator

# GSM8K, 1,314 questions, 1,282 right in base and 1,278 in PR; 7 lost at first, hence 3 gained.
GSM8K = PairedTable(both=1275, lost=7, gained=3, neither=29)
AIME_ITEMS, AIME_RIGHT = 30, 28
GPQA_ITEMS, GPQA_RIGHT, GPQA_CAPPED = 198, (167, 174), (16, 12)

Row = tuple[str, str]


def page() -> str:
    """The page `docs/source-numbers.md`."""
    sections = {
        "GSM8K, first run: 1,282 to 1,278 of 1,314 (7 lost, 3 gained)": gsm8k(),
        "GSM8K, what the other runs allow": other_runs(),
        "AIME: 28 and 28 of 30": aime(),
        "GPQA: 167 to 174 of 198, 16 and 12 answers cut": gpqa(),
        "Questions x repeats for a margin: 5 % one-sided, power 80 %, equal arms": sizes(),
        "A rule in use elsewhere: unpaired, standard deviation 50 (TensorRT-LLM)": unpaired_rule(),
    }
    text = (
        "# The source pull request in numbers\n\n"
        "Made by `python -m verify.stats.source_numbers`; do not edit. The pull request, sglang\n"
        "#39957, published counts of right answers; differences are PR minus base, in points.\n"
    )
    for title, rows in sections.items():
        text += f"\n## {title}\n\n| quantity | value |\n|---|---|\n"
        text += "".join(f"| {name} | {value} |\n" for name, value in rows)
    return text


def gsm8k() -> Iterator[Row]:
    """The paired table, and every method on it."""
    t, tango = GSM8K, TangoDifference(GSM8K)
    exact = ExactDifference(t.lost, t.gained, t.items)
    yield "difference", _points(t.difference)
    yield "questions that flip", f"{100 * t.discordance:.2f} %"
    found = mcnemar(t.lost, t.gained)
    yield "McNemar exact, mid-p", f"{found.exact:.3f}, {found.midp:.3f}"
    yield "McNemar exact, one-sided for harm", f"{harm(t.lost, t.gained):.3f}"
    intervals = {
        "Tango": tango.interval(),
        "Newcombe 10": newcombe_interval(t),
        "exact unconditional": exact.interval(),
        "bounded mean (Gaffke)": _items(t).interval(),
        "Wald (not used: too narrow)": _wald(t.lost, t.gained, t.items),
        "Bonett-Price (not used)": _wald(t.lost + 1, t.gained + 1, t.items + 2),
        "unpaired (not used: too wide)": _unpaired(t),
    }
    for name, interval in intervals.items():
        yield f"95 % interval, {name}", _interval(interval)
    for margin in (0.005, 0.0075, 0.01, 0.02):
        p = tango.noninferiority(margin), exact.noninferiority(margin)
        yield f"non-inferior at {100 * margin:g}: Tango, exact", f"p = {p[0]:.3g}, {p[1]:.3g}"
    for alpha in (0.05, 0.025):
        margins = tango.smallest_margin(alpha), exact.smallest_margin(alpha)
        both = f"{100 * margins[0]:.2f}, {100 * margins[1]:.2f}"
        yield f"smallest margin at {100 * alpha:g} % one-sided: Tango, exact", both
    worse = beta.sf(0.5, t.lost + 1, t.gained + 1)
    yield "P(PR is worse), uniform prior on the table", f"{worse:.2f}"
    paired, unpaired = (_error(i) for i in (_wald(t.lost, t.gained, t.items), _unpaired(t)))
    gain = f"{100 * paired:.3f} and {100 * unpaired:.3f}, variance / {(unpaired / paired) ** 2:.1f}"
    yield "standard error paired and unpaired", gain
    rights = np.repeat([[1, 1, 0, 0], [1, 0, 1, 0]], [t.both, t.lost, t.gained, t.neither], axis=1)
    yield "correlation of the two arms' answers", f"{np.corrcoef(rights)[0, 1]:.2f}"


def other_runs() -> Iterator[Row]:
    """Bounds where the pairing was not published."""
    tables = [(lost, lost - 4) for lost in range(4, 37)]
    p = [mcnemar(*table).exact for table in tables]
    at_margin = [ExactDifference(*table, GSM8K.items).noninferiority(0.01) for table in tables]
    yield "if only the net loss of 4 is known: McNemar exact", f"p = {min(p):.3f} to {max(p):.2f}"
    scores = [_tango(*table, GSM8K.items).noninferiority(0.01) for table in tables]
    ends = (f"{min(p):.3f} to {max(p):.2f}" for p in (scores, at_margin))
    yield "... non-inferior at 1: Tango, exact", f"p = {', '.join(ends)}"
    # 5 of 7 recovered and the net change is +1, so at least 4 are newly lost.
    yield "flips between the two PR runs, at least", f"{5 + 4} (between the arms: 10)"
    yield "flips between the two base runs (1,282 and 1,281): odd, at least", "1"
    base, pr = np.array([1282, 1281]), np.array([1278, 1279])
    difference = pr.mean() - base.mean()
    yield "mean of two runs each", _points(difference / GSM8K.items)
    error = math.sqrt(9 / 2)
    z = difference / error
    yield "... with the noise of 9 flips", f"z = {z:.2f}, p = {2 * norm.sf(abs(z)):.2f}"
    trap = ttest_ind(pr, base)
    runs = f"t = {trap.statistic:.1f} on 2 degrees of freedom, p = {trap.pvalue:.3f}"
    yield "... with the spread of two runs (a trap)", runs
    alone = TangoDifference(PairedTable(both=63, lost=1, gained=0, neither=0))
    intervals = f"{_interval(alone.interval())}, {_interval(newcombe_interval(alone.table))}"
    yield (
        "64 to 63 of 64 at concurrency 1: Tango, Newcombe; McNemar exact",
        f"{intervals}; p = {mcnemar(1, 0).exact:g}",
    )


def aime() -> Iterator[Row]:
    """What equal counts on thirty questions can exclude."""
    for flips in (0, 1, 2):
        both = AIME_RIGHT - flips
        t = PairedTable(both=both, lost=flips, gained=flips, neither=AIME_ITEMS - both - 2 * flips)
        tango, exact = TangoDifference(t), ExactDifference(flips, flips, AIME_ITEMS)
        p = f"{tango.noninferiority(0.1):.3f}, {exact.noninferiority(0.1):.3f}"
        yield (
            f"if {flips} lost and {flips} gained: Tango, exact interval; non-inferior at 10",
            f"{_interval(tango.interval())}, {_interval(exact.interval())}; p = {p}",
        )
    yield "loss that 30 questions without a flip cannot exclude", _points(-least_margin(AIME_ITEMS))
    yield "2 and 2 answers cut, if these are the wrong ones", _interval((-2 / 30, 2 / 30))


def gpqa() -> Iterator[Row]:
    """The pairing is unknown: from nothing lost to as much as the counts allow."""
    base, pr = GPQA_RIGHT
    for lost in (0, GPQA_ITEMS - pr):
        gained = lost + pr - base
        tango = _tango(lost, gained, GPQA_ITEMS)
        found = f"{mcnemar(lost, gained).exact:.3f}, {tango.noninferiority(0.02):.4f}"
        yield (
            f"if {lost} lost and {gained} gained: interval; McNemar exact, non-inferior at 2",
            f"{_interval(tango.interval())}; p = {found}",
        )
    passing = (
        lost
        for lost in range(GPQA_ITEMS - pr + 1)
        if _tango(lost, lost + pr - base, GPQA_ITEMS).noninferiority(0.02) <= 0.05
    )
    yield "non-inferior at 2, one-sided 5 %, if no more were lost than", f"{max(passing)}"
    capped = GPQA_CAPPED
    ends = (f"{r} to {r + c}" for r, c in zip(GPQA_RIGHT, capped, strict=True))
    yield "right if all cut answers were scored wrong: base, PR", ", ".join(ends)
    bounds = (pr - base - capped[0]) / GPQA_ITEMS, (pr - base + capped[1]) / GPQA_ITEMS
    yield "difference if all cut answers were scored wrong: bounds", _interval(bounds)
    done = [r / (GPQA_ITEMS - c) for r, c in zip(GPQA_RIGHT, capped, strict=True)]
    yield "right among the finished", f"{100 * done[0]:.1f} % and {100 * done[1]:.1f} %"
    rates = [[c, GPQA_ITEMS - c] for c in capped]
    yield "16 to 12 cut, unpaired Fisher", f"p = {fisher_exact(rates).pvalue:.2f}"


def sizes() -> Iterator[Row]:
    """If noise is all that two answers to a question differ by."""
    margins = (0.005, 0.01, 0.02, 0.03, 0.05)
    yield "questions that flip", ", ".join(f"{100 * margin:g}" for margin in margins) + " points"
    for flips in (0.0076, 0.03, 0.12):
        needed = (answers_needed(flips, margin, alpha=0.05) for margin in margins)
        yield f"{100 * flips:g} %", ", ".join(f"{each:,}" for each in needed)


def unpaired_rule() -> Iterator[Row]:
    """How low a score that rule would still pass."""
    for name, right, items in (("GSM8K", 1282, 1314), ("GPQA", GPQA_RIGHT[0], GPQA_ITEMS)):
        allowed = norm.isf(0.05) * 0.5 * math.sqrt(2 / items)
        yield f"{name} passes down to", f"{100 * (right / items - allowed):.1f} %"


def _tango(lost: int, gained: int, items: int) -> TangoDifference:
    """The score depends on the discordant questions alone."""
    return TangoDifference(PairedTable(items - lost - gained, lost, gained, 0))


def _items(t: PairedTable) -> BoundedMean:
    counts = np.array([t.lost, t.both + t.neither, t.gained], dtype=np.float64)
    return BoundedMean(np.array([-1.0, 0.0, 1.0]), counts)


def _wald(lost: int, gained: int, items: int) -> tuple[float, float]:
    difference = (gained - lost) / items
    reach = norm.isf(0.025) * math.sqrt(((lost + gained) / items - difference**2) / items)
    return difference - reach, difference + reach


def _unpaired(t: PairedTable) -> tuple[float, float]:
    rights = (t.both + t.lost) / t.items, (t.both + t.gained) / t.items
    reach = norm.isf(0.025) * math.sqrt(sum(r * (1 - r) for r in rights) / t.items)
    return t.difference - reach, t.difference + reach


def _error(interval: tuple[float, float]) -> float:
    return float((interval[1] - interval[0]) / 2 / norm.isf(0.025))


def _points(share: float) -> str:
    return f"{100 * share:+.3f}"


def _interval(ends: tuple[float, float]) -> str:
    return f"[{100 * ends[0]:+.3f}, {100 * ends[1]:+.3f}]"


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("docs/source-numbers.md"),
    show_default=True,
)
def command(out: Path) -> None:
    """Write what the source pull request's numbers establish."""
    write_text(out, page())
    click.echo(f"wrote {out}")


if __name__ == "__main__":
    run(command, "verify.stats.source_numbers")

"""`compare`: two arms whose answers exist already, in our records or any log we read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
import numpy as np

from verify import logs, manifest
from verify.command import UserError
from verify.evals import options, show
from verify.evals.margins import Margin, embedded, margin_of
from verify.evals.output import console_for_people
from verify.evals.plan import given_margins
from verify.evals.subsets import Subsets
from verify.files import write_json
from verify.logs.run import manifest_beside
from verify.pairs import Asking, of_run, scores
from verify.stats.suite import SuiteScores, judge
from verify.store import FILE_NAME
from verify.verdict import Verdict, combine

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from verify.logs import Log

ARMS = ("base", "pr")
_NOT_KNOWN = {
    "truncated": "whether answers were truncated",
    "completion_tokens": "how long answers are",
    "prompt_sha256": "whether the prompts were the same",
    "target_sha256": "whether the targets were the same",
    "error": "whether requests failed",
}


@dataclass(frozen=True)
class Compared:
    """Two arms, their suites ready to be judged, and what a reader should know besides."""

    arms: tuple[Log, Log]
    suites: tuple[SuiteScores, ...]
    margins: dict[str, Margin]
    notes: tuple[str, ...]


@click.command()
@click.argument("logs", nargs=-1, metavar="[BASE PR]")
@click.option("--base", multiple=True, metavar="FILE", help="A log of base; several are repeats.")
@click.option("--pr", multiple=True, metavar="FILE", help="A log of PR; several are repeats.")
@click.option("--suite", help="Compare this suite only; also names records that name none.")
@click.option("--filter", "filter_", help="Which of lm-evaluation-harness's answer filters.")
@click.option("--metric", help="Which metric or scorer, where a log holds several.")
@click.option(
    "--margin",
    multiple=True,
    metavar="PT|SUITE=PT",
    help="The loss to rule out, in percentage points; by default the one fixed before the run, or "
    "the benchmark's (GSM8K 1, AIME 5, GPQA 3).",
)
@click.option(
    "--allow-unequal", is_flag=True, help="Let numbers of repeats differ: item means are compared."
)
@click.option(
    "--split",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="CSV",
    help="Compare subsets: a file with the columns item and subset.",
)
@options.json_file
@click.pass_context
def compare(context: click.Context, /, json_file: Path | None, **words: Any) -> Verdict:
    """Compare two arms on logs: kernelproof, lm-eval, inspect_ai, sgl-eval, evalscope, CSV, ...

    A log is a file, the folder of a run, or FILE::ARM, one arm of a file that holds several.
    Each of several files counts as a server start of its own; repeats within a file share one.

    Exit codes: 0 pass, 1 fail, 2 wrong use, 3 inconclusive, 4 invalid.
    """
    found = _read(**words)
    results = judge(found.suites)
    document = {
        "verdict": str(combine(result.verdict for result in results)),
        "suites": msgspec.to_builtins(results),
        "manifest": _manifest(found, context.command_path),
    }
    if json_file is not None:
        write_json(json_file, document)
    show.comparison(console_for_people(), document)
    return Verdict(document["verdict"])


def _read(
    *,
    logs: tuple[str, ...],
    base: tuple[str, ...],
    pr: tuple[str, ...],
    suite: str | None,
    filter_: str | None,
    metric: str | None,
    margin: tuple[str, ...],
    allow_unequal: bool,
    split: Path | None,
) -> Compared:
    """Both arms, paired.

    Raises:
        UserError: options that do not fit, logs that cannot be read or must not be compared.
    """
    everywhere, by_suite = given_margins(margin)
    arms = _arms(_sources(logs, base, pr), suite, filter_, metric)
    names = _common(arms)
    for name in by_suite:
        if name not in names:
            raise UserError(f"--margin {name}: no such suite here; it holds {', '.join(names)}")
    margins = {n: margin_of(n, by_suite.get(n, everywhere), arms) for n in names}
    subsets = None if split is None else Subsets.read(split)
    deterministic = embedded(arms)
    suites: list[SuiteScores] = []
    for name, judged_at in margins.items():
        pairs, whole = _scores(name, arms, judged_at, allow_unequal=allow_unequal)
        whole = replace(whole, deterministic=deterministic)
        items = pairs.items.taken(np.flatnonzero(pairs.usable))
        suites += [whole] if subsets is None else _split(whole, list(items), subsets)
    return Compared(arms, tuple(suites), margins, tuple(_notes(arms, margins)))


def _sources(
    both: tuple[str, ...], base: tuple[str, ...], pr: tuple[str, ...]
) -> tuple[Sequence[str], Sequence[str]]:
    if len(both) == 2 and not (base or pr):
        return both[:1], both[1:]
    if both or not (base and pr):
        raise UserError(
            "name two logs, base first, or --base FILE and --pr FILE as often as each has repeats"
        )
    return base, pr


def _arms(
    sources: tuple[Sequence[str], Sequence[str]],
    suite: str | None,
    filter_: str | None,
    metric: str | None,
) -> tuple[Log, Log]:
    """Both arms' logs, if they may be compared."""
    same = sorted(set(sources[0]) & set(sources[1]))
    if same:
        raise UserError(f"{same[0]} is in both arms; name the logs of two arms")
    choice = logs.Choice(filter_, metric)
    base, pr = (logs.read_arm(files, suite=suite, choice=choice) for files in sources)
    differing = logs.differences(base, pr)
    if differing:
        others = len(differing) - 1
        more = f" (and {others} other setting{'s' * (others > 1)})" if others else ""
        raise UserError(
            f"{base.paths[0]} and {pr.paths[0]} cannot be compared: they differ in "
            f"{differing[0]}{more}; ask both arms the same",
            Verdict.INVALID.exit_code,
        )
    return base, pr


def _common(arms: tuple[Log, Log]) -> list[str]:
    """The suites, which both arms must have; of one suite an arm, the name may differ."""
    base, pr = arms
    if len(base.suites) == len(pr.suites) == 1:
        return list(base.suites)
    alone = [
        f"suite {name} is in {arm} only"
        for arm, ours, theirs in (("base", base, pr), ("PR", pr, base))
        for name in ours.suites
        if name not in theirs.suites
    ]
    if alone:
        raise UserError(
            f"{alone[0]}; compare one that both have, with --suite", Verdict.INVALID.exit_code
        )
    return list(base.suites)


def _scores(
    suite: str, arms: tuple[Log, Log], judged_at: Margin, *, allow_unequal: bool
) -> tuple[logs.Pairs, SuiteScores]:
    """The pairs of one suite and their scores, as the run asked them where it was one of ours."""
    base, theirs = arms[0].suites[suite], arms[1].suites
    pr = theirs[suite] if suite in theirs else next(iter(theirs.values()))
    margin, floor = judged_at.points / 100, judged_at.floor
    asking = None if allow_unequal else _asking(suite, arms)
    if asking is not None:
        return of_run(suite, (base, pr), asking, ARMS, margin=margin, floor=floor)
    pairs = logs.pair(base, pr, ARMS)
    return pairs, scores(suite, pairs, margin=margin, floor=floor, allow_unequal=allow_unequal)


def _asking(suite: str, arms: tuple[Log, Log]) -> Asking | None:
    """How both arms were asked, if they are those of one run."""
    path, *others = {path for arm in arms for path in arm.paths}
    manifest = manifest_beside(path) if path.name == FILE_NAME and not others else None
    asked = None if manifest is None else manifest.suites.get(suite)
    if manifest is None or asked is None or not asked.orders or asked.margin_pt is None:
        return None
    return Asking(
        items=[asked.items[index] for index in asked.orders[0]],
        repeats=len(asked.orders),
        margin=asked.margin_pt / 100,
        early_stop=manifest.rules.early_stop,
        certify=manifest.rules.certify,
        fresh=manifest.fresh,
    )


def _split(whole: SuiteScores, items: Sequence[str], subsets: Subsets) -> list[SuiteScores]:
    """One suite a subset, in the order of their names."""
    return [
        replace(
            whole,
            suite=name,
            base=whole.base[rows],
            pr=whole.pr[rows],
            truncated=_rows(whole.truncated, rows),
            tokens=_rows(whole.tokens, rows),
            asked=_asked(whole.asked, rows),
        )
        for name, rows in subsets.rows(whole.suite, items)
    ]


def _rows(arrays: tuple[Any, Any] | None, rows: Any) -> tuple[Any, Any] | None:
    return None if arrays is None else (arrays[0][rows], arrays[1][rows])


def _asked(asked: npt.NDArray[np.intp] | None, rows: Any) -> npt.NDArray[np.intp] | None:
    """The order of those questions that are among `rows`, by their place there."""
    if asked is None:
        return None
    kept = asked[np.isin(asked, rows)]
    return np.searchsorted(rows, kept)


def _notes(arms: tuple[Log, Log], margins: dict[str, Margin]) -> list[str]:
    """What the logs say of themselves, what they cannot tell, what was changed afterwards."""
    base, pr = arms
    found = [f"{name}: {n}" for name, log in zip(ARMS, arms, strict=True) for n in log.notes]
    if base.suites.keys() != pr.suites.keys():
        found.append(f"base calls the suite {next(iter(base.suites))}, PR {next(iter(pr.suites))}")
    for field, words in _NOT_KNOWN.items():
        blind = [name for name, log in zip(ARMS, arms, strict=True) if field in log.unknown]
        if blind:
            found.append(f"not known {words} ({' and '.join(blind)})")
    found += [
        f"{suite}: the margin was changed after the answers existed, from {m.before:g} to "
        f"{m.points:g} points"
        for suite, m in margins.items()
        if m.before is not None
    ]
    return found


def _manifest(found: Compared, program: str) -> dict[str, Any]:
    return {
        "command": manifest.command_line(program),
        "started": manifest.now(),
        **manifest.environment(),
        "arms": {
            name: {
                "kind": "log",
                "files": [str(path) for path in log.paths],
                "format": log.format,
                "settings": log.settings,
                "unknown": sorted(log.unknown),
            }
            for name, log in zip(ARMS, found.arms, strict=True)
        },
        "suites": {
            name: {"margin_pt": m.points, "margin_from": m.source, "floor": m.floor}
            for name, m in found.margins.items()
        },
        "notes": list(found.notes),
    }

"""What a result looks like in a terminal: the verdicts and their figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from verify.stats.families import all_pass_p

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

STYLES = {"pass": "bold green", "fail": "bold red"}


def verdicts(console: Console, result: Mapping[str, Any], where: str) -> None:
    """The table of suites, layers 1 and 2 if the folder holds them, the verdict of all."""
    kernel = result.get("kernel")
    if kernel:
        for layer, verdict in kernel["layers"].items():
            wrong = {f["case"] for f in kernel["findings"] if str(f["layer"]) == layer}
            console.print(
                Text(f"layer {layer}"),
                styled(verdict),
                Text(f"{len(wrong)} of {kernel['executed']} cases wrong"),
                sep="  ",
            )
    if result["suites"]:
        console.print(_table(result["suites"]))
        for suite in result["suites"]:
            console.print(f"{suite['suite']}: {suite['reason']}", markup=False)
    console.print(styled(result["verdict"].upper(), result["verdict"]), Text(f"  {where}"), sep="")


def comparison(console: Console, result: Mapping[str, Any]) -> None:
    """Two arms of logs: what they are, the table of suites, methods, noise and notes."""
    for name, arm in result["manifest"]["arms"].items():
        files = ", ".join(arm["files"])
        console.print(f"{name}  {files} ({arm['format']})", markup=False)
    console.print(_table(result["suites"]))
    for suite in result["suites"]:
        console.print(f"{suite['suite']}: {suite['reason']}", markup=False)
        for detail in _details(suite):
            console.print(f"  {detail}", markup=False)
    p_values = {suite["suite"]: suite["noninferiority"]["p"] for suite in result["suites"]}
    if len(p_values) > 1 and None not in p_values.values():
        console.print(f"every suite at its margin: p = {_p(all_pass_p(p_values))}", markup=False)
    for note in result["manifest"]["notes"]:
        console.print(f"note: {note}", markup=False)
    console.print(styled(result["verdict"].upper(), result["verdict"]))


def _details(suite: Mapping[str, Any]) -> Iterator[str]:
    """Methods and the figures that have no column."""
    if suite["difference_pt"] is None:
        return
    yield f"method: {suite['interval_method']}"
    if suite["detectable_pt"] is not None:
        yield (
            f"smallest margin shown {suite['smallest_margin_pt']:.2f} points; as many answers "
            f"could see {suite['detectable_pt']:.2f}"
        )
    if test := suite["mcnemar"]:
        yield f"McNemar exact p = {test['exact']:.3g}, mid-p {test['midp']:.3g}"
    if looks := suite["sequential"]:
        wins = looks["certificate"]
        more = "" if wins is None else f", of the certificate {wins:.3g}"
        ended = ", where the run stopped" if looks["stopped"] else ""
        yield (
            f"looked at after each of {looks['questions']:,} questions{ended}: e-value of harm "
            f"{looks['harm']:.3g}{more}"
        )
    noise = suite["noise"]
    if noise:
        rates = [
            f"{name} {100 * noise[key]:.2f} %"
            for name, key in (
                ("base to base", "flips_base"),
                ("PR to PR", "flips_pr"),
                ("base to PR", "flips_between"),
            )
            if noise[key] is not None
        ]
        yield f"flips: {', '.join(rates)}"
        for each in noise["repeats"]:
            more = (
                f", {each['recovered']} recovered, {each['newly_lost']} newly lost"
                if each["repeat"]
                else ""
            )
            yield f"repeat {each['repeat'] + 1}: {each['lost']} lost, {each['gained']} gained{more}"
    if suite["truncated"] and (suite["truncated"]["base"] or suite["truncated"]["pr"]):
        low, high = suite["truncation_bounds_pt"]
        cut = suite["truncated"]
        yield (
            f"truncated {cut['base']} and {cut['pr']} (p = {suite['cap_rate']['p']:.2g}): the "
            f"difference lies between {low:+.2f} and {high:+.2f} points"
        )
    if suite["length"]:
        p = suite["length"]["p"]
        yield f"length: x {suite['length']['ratio']:.3f}" + (f" (p = {p:.2g})" if p else "")
    if suite["partial_credit"]:
        credit = suite["partial_credit"]
        t = "-" if credit["t_p"] is None else f"{credit['t_p']:.3g}"
        yield f"partial credit: paired t p = {t}, permutation p = {credit['permutation_p']:.3g}"


def _table(suites: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    for name in ("suite", "verdict", "base\n%", "PR\n%", "diff\npt", "95 %\ninterval",
                 "p\n(margin)", "lost/\ngained"):  # fmt: skip
        table.add_column(name, no_wrap=True)
    for suite in suites:
        table.add_row(suite["suite"], styled(suite["verdict"]), *_figures(suite))
    return table


def _figures(suite: Mapping[str, Any]) -> list[str]:
    if suite["difference_pt"] is None:
        return ["-"] * 6
    low, high = suite["interval_pt"] or (-100.0, 100.0)
    test = suite["noninferiority"]
    return [
        f"{100 * suite['accuracy']['base']:.1f}",
        f"{100 * suite['accuracy']['pr']:.1f}",
        f"{suite['difference_pt']:+.2f}",
        f"{low:+.2f} to {high:+.2f}",
        f"{_evidence(suite)} ({test['margin_pt']:g})",
        f"{suite['lost']}/{suite['gained']}",
    ]


def _evidence(suite: Mapping[str, Any]) -> str:
    """The p-value at the margin, or the e-value where only that is valid."""
    looks, p = suite["sequential"], suite["noninferiority"]["p"]
    if p is not None:
        return _p(p)
    if looks is None:
        return "-"
    return f"e={looks['harm'] if looks['certificate'] is None else looks['certificate']:.3g}"


def _p(p: float) -> str:
    return "<.0001" if p < 1e-4 else f"{p:.2g}"


def styled(words: str, verdict: str | None = None) -> Text:
    """A verdict in its colour."""
    return Text(words, style=STYLES.get(verdict or words, "bold yellow"))

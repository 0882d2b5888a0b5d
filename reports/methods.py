"""The methods behind the figures, by name and source; a page lists those that it used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.read import Kernel, Suite


@dataclass(frozen=True)
class Method:
    """A method: what it is used for here, and where it is defined."""

    name: str
    use: str
    source: str


BOUND = Method(
    "Rounding-error bound",
    "Layer 1: how far BF16 output may lie from an FP64 calculation, element by element",
    "N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002",
)
MX = Method(
    "MXFP8 codes and scales",
    "Layer 2: the format of blocks, codes and scale bytes",
    "OCP Microscaling Formats (MX) Specification v1.0, 2023",
)
TANGO = Method(
    "Tango\u2019s score interval and test",
    "The difference of two paired proportions, its interval and non-inferiority",
    "T. Tango, Statistics in Medicine 17 (1998) 891\u2013908; J.-p. Liu et al., Statistics in "
    "Medicine 21 (2002) 231\u2013245",
)
MCNEMAR = Method(
    "McNemar\u2019s test, exact and mid-p",
    "Whether lost and gained questions part unevenly",
    "Q. McNemar, Psychometrika 12 (1947) 153\u2013157; M. W. Fagerland, S. Lydersen and P. Laake, "
    "BMC Medical Research Methodology 13 (2013) 91",
)
CLUSTERED = Method(
    "Clustering by question",
    "The interval where questions were asked several times",
    "E. Miller, Adding Error Bars to Evals, arXiv:2411.00640 (2024)",
)
EQUIVALENCE = Method(
    "Two one-sided tests",
    "Equivalence within a margin",
    "D. J. Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987) 657\u2013680",
)
BOUNDS = Method(
    "Worst-case bounds",
    "The difference if truncated answers had gone one way or the other",
    "J. L. Horowitz and C. F. Manski, Journal of the American Statistical Association 95 (2000) "
    "77\u201384",
)
HOLM = Method(
    "Holm\u2019s correction",
    "The test for harm over several suites",
    "S. Holm, Scandinavian Journal of Statistics 6 (1979) 65\u201370",
)


def methods(kernel: Kernel | None, suites: tuple[Suite, ...]) -> Iterator[Method]:
    """The methods that this run's figures rest on."""
    if kernel is not None:
        yield from (BOUND, MX)
    repeated = [s for s in suites if s.repeats and max(s.repeats.base or 1, s.repeats.pr or 1) > 1]
    uses = {
        TANGO: any(s.interval_pt for s in suites if s not in repeated),
        MCNEMAR: any(s.mcnemar for s in suites),
        CLUSTERED: bool(repeated),
        EQUIVALENCE: any(s.equivalence for s in suites),
        BOUNDS: any(s.truncation_bounds_pt for s in suites),
        HOLM: len(suites) > 1,
    }
    yield from (method for method, used in uses.items() if used)

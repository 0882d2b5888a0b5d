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
EXACT = Method(
    "Exact unconditional test",
    "The difference of two paired proportions where questions are few",
    "H.-M. Hsueh, J.-P. Liu and J. J. Chen, Biometrics 57 (2001) 478\u2013483; R. L. Berger and "
    "D. D. Boos, Journal of the American Statistical Association 89 (1994) 1012\u20131016",
)
CLUSTERED = Method(
    "Gaffke\u2019s bound on item means",
    "The difference where questions were asked several times, clustered by question",
    "N. Gaffke, Mathematical Methods of Statistics 14 (2005) 451\u2013467; E. Learned-Miller and "
    "P. S. Thomas, arXiv:1905.06208 (2019)",
)
STARTS = Method(
    "Welch\u2019s t on server starts",
    "What shifts of whole starts add to the interval",
    "B. L. Welch, Biometrika 34 (1947) 28\u201335; G. Y. Zou and A. Donner, Statistics in Medicine "
    "27 (2008) 1693\u20131702",
)
BETTING = Method(
    "E-values by betting, and their confidence sequence",
    "Evidence that stays valid whenever a run is looked at or stopped",
    "I. Waudby-Smith and A. Ramdas, Journal of the Royal Statistical Society B 86 (2024) "
    "1\u201327; A. Ramdas et al., Statistical Science 38 (2023) 576\u2013601",
)
SHIFTS = Method(
    "Variance of whole runs",
    "Whether runs of one arm vary more than independent answers do",
    "W. G. Cochran, Biometrika 37 (1950) 256\u2013266",
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
    by_name = " ".join(s.interval_method or "" for s in suites)
    uses = {
        TANGO: "Tango score" in by_name,
        EXACT: "exact unconditional" in by_name,
        MCNEMAR: any(s.mcnemar for s in suites),
        CLUSTERED: "Gaffke" in by_name,
        STARTS: "Welch" in by_name,
        BETTING: any(s.sequential for s in suites),
        SHIFTS: any(s.noise and (s.noise.shift_base or s.noise.shift_pr) for s in suites),
        EQUIVALENCE: any(s.equivalence and s.equivalence.p is not None for s in suites),
        BOUNDS: any(s.truncation_bounds_pt for s in suites),
        HOLM: len(suites) > 1,
    }
    yield from (method for method, used in uses.items() if used)

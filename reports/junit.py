"""JUnit XML of a run, for the systems that collect it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from reports import text, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.read import Finding, Result
    from reports.view import Page
    from verify.verdict import Verdict


def junit(page: Page, result: Result) -> str:
    """A test suite for layers 1 and 2, one for layer 3, one for texts that were scored.

    Each layer and each suite of questions is one test, each finding another. What could not tell
    is a failure too, of type `inconclusive`; what proves nothing is an error.
    """
    root = ET.Element("testsuites", name="kernelproof")
    kernel, suites = result.kernel, result.suites
    if kernel is not None:
        tests = [
            _test("kernel", layer.name, layer.verdict, layer.sentence)
            for layer in page.layers[:2]
            if layer.verdict is not None
        ]
        _suite(root, "kernel", [*tests, *map(_finding, kernel.findings)], kernel.seconds)
    if suites:
        _suite(root, "evals", [_test("evals", s.suite, s.verdict, s.reason) for s in suites])
    if result.score is not None:
        texts = result.score.texts
        _suite(root, "score", [_test("score", t.name, t.verdict, t.reason) for t in texts])
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ET.Element, name: str, tests: list[ET.Element], seconds: float = 0) -> None:
    failed, broken = (sum(t.find(kind) is not None for t in tests) for kind in ("failure", "error"))
    counts = {"tests": len(tests), "failures": failed, "errors": broken}
    suite = _element("testsuite", name=name, time=f"{seconds:.1f}")
    suite.attrib |= {key: str(number) for key, number in counts.items()}
    suite.extend(tests)
    root.append(suite)


def _test(group: str, name: str, verdict: Verdict, message: str) -> ET.Element:
    test = _element("testcase", classname=group, name=name)
    if verdict != "pass":
        kind = "error" if verdict == "invalid" else "failure"
        test.append(_element(kind, type=verdict.value, message=words.sentence(message)))
    return test


def _finding(finding: Finding) -> ET.Element:
    name = f"{finding.case} {finding.check}"
    test = _element("testcase", classname=f"kernel.layer{finding.layer}", name=name)
    failure = _element("failure", type=finding.check, message=finding.message)
    failure.text = text.visible("\n".join(_details(finding)))
    test.append(failure)
    return test


def _details(finding: Finding) -> Iterator[str]:
    bad = finding.first_bad
    if bad is not None:
        at = ", ".join(map(str, bad.index))
        yield f"first at [{at}], byte {bad.byte}: {bad.actual}, expected {bad.expected}"
    yield f"replay: {finding.replay}"


def _element(tag: str, **attributes: str) -> ET.Element:
    """An element whose attributes hold only what XML can carry."""
    return ET.Element(tag, {key: text.visible(value) for key, value in attributes.items()})

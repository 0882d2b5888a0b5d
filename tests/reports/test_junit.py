"""JUnit XML: what a collector reads says what the run said."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from reports import render


@pytest.fixture
def junit_of(write_run):
    def write(**contents):
        folder = write_run(**contents)
        render(folder)
        return ET.parse(folder / "junit.xml").getroot()

    return write


def test_a_passing_run_has_one_test_a_layer_and_suite(junit_of, make_suite, make_kernel):
    root = junit_of(kernel=make_kernel(), suites=[make_suite(), make_suite("mini-aime")])
    names = [test.get("name") for test in root.iter("testcase")]
    assert names == ["Layer 1", "Layer 2", "mini-gsm8k", "mini-aime"]
    assert [(s.get("tests"), s.get("failures"), s.get("errors")) for s in root] == [
        ("2", "0", "0"),
        ("2", "0", "0"),
    ]


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [("fail", "failure"), ("inconclusive", "failure"), ("invalid", "error")],
)
def test_what_does_not_pass_is_red(junit_of, make_suite, verdict, kind):
    root = junit_of(verdict=verdict, suites=[make_suite(verdict=verdict, reason="too few")])
    (test,) = root.iter("testcase")
    assert test.find(kind).get("type") == verdict
    assert test.find(kind).get("message") == "too few."


def test_every_finding_carries_its_replay(junit_of, make_kernel, finding):
    found = [finding(case=f"T={n}\x1b[31m") for n in range(40)]
    root = junit_of(verdict="fail", kernel=make_kernel(found))
    failed = [t.find("failure").text for t in root.iter("testcase") if "T=" in t.get("name")]
    assert len(failed) == 40
    assert "replay: python -m verify.kernel --case T=7\u27e8U+001B\u27e9[31m" in failed[7]
    assert "first at [0, 3], byte 3: 0x7e, expected 0x7f" in failed[7]
    assert root[0].get("failures") == "41"

"""Synthetic run folders: what verify.evals and verify.kernel leave, in every state a page shows."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from itertools import count

import pytest

from reports import render
from verify.store import Record, Store

PAIR = {"base": 1, "pr": 1}


def suite(name="mini-gsm8k", verdict="pass", **changes):
    """A suite of result.json, as DESIGN gives it: 192 questions, 3 lost, 2 gained."""
    return {
        "suite": name,
        "items": 192,
        "repeats": dict(PAIR),
        "both": 170,
        "lost": 3,
        "gained": 2,
        "neither": 17,
        "accuracy": {"base": 173 / 192, "pr": 172 / 192},
        "difference_pt": -0.5208,
        "interval_pt": [-3.61, 2.41],
        "confidence": 0.95,
        "interval_method": "Tango score",
        "mcnemar": {"exact": 1.0, "midp": 0.6875},
        "noninferiority": {"margin_pt": 5.0, "p": 0.0021, "method": "Tango score"},
        "equivalence": {"margin_pt": 5.0, "p": 0.0021},
        "smallest_margin_pt": 3.61,
        "truncated": {"base": 0, "pr": 0},
        "truncation_bounds_pt": [-0.5208, -0.5208],
        "detectable_pt": 3.4,
        "verdict": verdict,
        "reason": "a loss of 5 points is ruled out (p = 0.0021)",
        **changes,
    }


def kernel(findings=(), **changes):
    """A kernel.json: 312 cases on a CPU."""
    verdict = changes.get("verdict", "pass")
    wrong = {str(each["layer"]) for each in findings}
    return {
        "verdict": "fail" if findings else "pass",
        "layers": {layer: "fail" if layer in wrong else verdict for layer in ("1", "2")},
        "cases": 312,
        "executed": 312,
        "findings": list(findings),
        "tiers": {"exact": 96, "calibrated": 216},
        "use": {"exact": 0.0, "calibrated": 0.31},
        "uses": {"0": 96, "to 0.01": 200, "to 0.1": 0, "to 0.5": 16, "to 1": 0, "over 1": 0},
        "ulps": {"0": 9_990_000, "1": 9_980, "2": 20, "more": 0},
        "adequacy": {"distinct scale bytes": 255, "distinct codes": 254, "blocks not judged": 2},
        "environment": {
            "candidate": "kernel:fused_triton",
            "budget": "quick",
            "device": "x86_64",
            "torch": "2.13.0",
        },
        "seconds": 41.7,
        **changes,
    }


def finding(case="T=1-family=one-hot", check="scales", layer=2, **changes):
    return {
        "case": case,
        "check": check,
        "layer": layer,
        "message": "3 of 512 scale bytes differ",
        "first_bad": {"index": [0, 3], "byte": 3, "actual": "0x7e", "expected": "0x7f"},
        "replay": f"python -m verify.kernel --case {case}",
        "picture": "|  ..::##    |\n|  ..::##    |",
        **changes,
    }


def records(name="mini-gsm8k", *, both=170, lost=3, gained=2, neither=17, repeats=1, texts=None):
    """Records of both arms, as counted; `texts` replaces an answer by (arm, item)."""
    grades = [(True, True)] * both + [(True, False)] * lost
    grades += [(False, True)] * gained + [(False, False)] * neither
    for number, by_arm in enumerate(grades):
        for repeat in range(repeats):
            for arm, correct in zip(("base", "pr"), by_arm, strict=True):
                answer = "42" if correct else "41"
                text = f"First 40 + 2 is taken.\nThe sum is {answer}.\n#### {answer}"
                yield Record(
                    suite=name,
                    item=f"q{number:04d}",
                    repeat=repeat,
                    arm=arm,
                    correct=correct,
                    truncated=False,
                    error=None,
                    prompt_sha256="p" * 64,
                    target_sha256="t" * 64,
                    completion_tokens=17,
                    text=(texts or {}).get((arm, f"q{number:04d}"), text),
                    answer=answer,
                    rule="after-hashes",
                )


MANIFEST = {
    "command": ["python", "-m", "verify.evals", "--arms", "base,pr"],
    "started": "2026-12-01T09:00:00Z",
    "versions": {"python": "3.11.2", "torch": "2.13.0"},
    "git": None,
    "arms": {
        "base": {
            "kind": "embedded",
            "wo_a": "kernel:chain",
            "device": "cpu",
            "calls": {"chain": 1265},
            "calls_by_rows": {"chain": {"T=31": 61, "T=32": 1204}},
        },
        "pr": {
            "kind": "embedded",
            "wo_a": "kernel:fused_triton",
            "device": "cpu",
            "calls": {"fused": 1204, "chain": 61},
            "calls_by_rows": {"fused": {"T=31": 0, "T=32": 1204}, "chain": {"T=40": 61}},
        },
    },
    "suites": {
        "mini-gsm8k": {
            "title": "Generated word problems",
            "floor": 0.05,
            "items_in_suite": 1319,
            "items_asked": 192,
            "items": {f"q{n:04d}": "p" * 64 for n in range(192)},
        }
    },
}


@pytest.fixture
def write_run(tmp_path):
    """Write a fresh run folder and return it; `kept=None` leaves records.sqlite out."""
    numbers = count()

    def write(
        *,
        suites=None,
        kernel=None,
        verdict="pass",
        manifest=MANIFEST,
        extractors=None,
        kept=(),
        prompt="What is 40 + 2?",
        target="42",
    ):
        folder = tmp_path / str(next(numbers)) / "run"
        folder.mkdir(parents=True)
        document = {
            "verdict": verdict,
            "suites": [suite()] if suites is None else suites,
            "extractors": extractors,
        }
        if kernel is not None:
            document["kernel"] = kernel
        (folder / "result.json").write_text(json.dumps(document))
        if manifest is not None:
            (folder / "manifest.json").write_text(json.dumps(manifest))
        if kept is not None:
            _keep(folder, list(kept), prompt, target)
        return folder

    return write


def _keep(folder, kept, prompt, target):
    store = Store.open(folder / "records.sqlite")
    for name, item in dict.fromkeys((record.suite, record.item) for record in kept):
        store.add_item(name, item, prompt, target)
    for record in kept:
        store.add(record)
    store.close()


class Page(HTMLParser):
    """A page taken apart: elements in order, text by element, ids, and whether tags nest."""

    VOID = frozenset({"meta", "link", "br", "hr", "img", "input"})

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.html = html
        self.elements = []
        self.open = []
        self.errors = []
        self.feed(html)
        self.close()
        self.errors += [f"<{name}> is never closed" for name, _ in self.open]

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "text": "", **{f"@{k}": v or "" for k, v in attrs}}
        self.elements.append(element)
        if tag not in self.VOID:
            self.open.append((tag, element))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.errors.append(f"</{tag}> closes {self.open[-1][0] if self.open else 'nothing'}")
            return
        self.open.pop()

    def handle_data(self, data):
        for _, element in self.open:
            element["text"] += data

    def all(self, tag=None, cls=None, **attributes):
        return [
            e
            for e in self.elements
            if (tag is None or e["tag"] == tag)
            and (cls is None or cls in e.get("@class", "").split())
            and all(e.get(f"@{k}") == v for k, v in attributes.items())
        ]

    def one(self, tag=None, cls=None, **attributes):
        (element,) = self.all(tag, cls, **attributes)
        return element


@pytest.fixture
def make_suite():
    return suite


@pytest.fixture
def make_kernel():
    return kernel


@pytest.fixture(name="finding")
def finding_fixture():
    return finding


@pytest.fixture(name="records")
def records_fixture():
    return records


@pytest.fixture
def parse():
    return Page


@pytest.fixture
def page_of(write_run):
    """The page of a run, taken apart; arguments as `write_run`."""
    return lambda **contents: Page(render(write_run(**contents)).read_text(encoding="utf-8"))

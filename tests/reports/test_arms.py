"""The two arms side by side."""

from __future__ import annotations

from msgspec.structs import replace


def test_the_manifest_marks_what_differs(page_of):
    page = page_of()
    differing = [e["text"].split()[1] for e in page.all("tr", "differs")]
    assert differing == ["wo_a", "calls", "calls_by_rows.chain", "calls_by_rows.fused"]
    assert "python -m verify.evals --arms base,pr" in page.html
    assert "versions.torch" in page.html
    assert "192 entries, in the data below" in page.html
    assert "T=31: 61, T=32: 1,204" in page.html


def test_the_path_that_each_arm_took_is_told(page_of):
    text = page_of().one("section", id="answers")["text"]
    assert "In base, the attention output took the chain path 1,265 times." in text
    assert (
        "In pr, the attention output took the fused path 1,204 times and the chain path 61 times."
        in text
    )


def test_arms_bear_their_own_names(page_of, records):
    kept = [replace(r, arm={"base": "old", "pr": "new"}[r.arm]) for r in records()]
    page = page_of(manifest={"arms": {"old": {"url": "a"}, "new": {"url": "b"}}}, kept=kept)
    assert len(page.all("details", "question")) == 5
    assert "new: 41" in page.one("article", "suite")["text"]

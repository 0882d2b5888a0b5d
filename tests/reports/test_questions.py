"""The questions on which the arms disagree."""

from __future__ import annotations

from msgspec.structs import replace


def test_every_disagreement_is_listed_once(page_of, make_suite, records):
    kept = [*records(), *records("mini-aime", both=1, lost=0, gained=1, neither=0)]
    page = page_of(suites=[make_suite(), make_suite("mini-aime", items=2)], kept=kept)
    items = [e["text"] for e in page.all("code", "item")]
    assert items == ["q0170", "q0171", "q0172", "q0173", "q0174", "q0001"]
    tags = [e["text"] for e in page.all("span", "tag")]
    assert tags == ["lost"] * 3 + ["gained"] * 3
    assert "187 of 192 pairs of answers are the same letter for letter" in page.html


def test_records_that_contradict_the_result_are_noticed(page_of, records):
    assert not page_of(kept=records()).all("p", "warning")
    warning = page_of(kept=records(lost=1)).one("p", "warning")["text"]
    assert "counts 3 lost and 2 gained, the records kept show 1 and 2" in warning


def test_a_disagreement_shows_both_answers_from_where_they_part(page_of, records):
    page = page_of(kept=records(both=0, lost=1, gained=0, neither=0))
    question = page.one("details", "question")
    assert "What is 40 + 2?" in question["text"]
    assert [e["text"] for e in page.all("mark")] == [" 42", " 41"]
    assert page.one("pre", "shared")["text"] == "First 40 + 2 is taken.\nThe sum is"
    assert question["text"].count("by the rule after-hashes; 17 tokens") == 2


def test_repeats_that_balance_are_no_disagreement(page_of, records):
    def graded(arm, repeat):
        return (arm == "base") == (repeat == 0)

    kept = [
        replace(r, correct=graded(r.arm, r.repeat))
        for r in records(both=1, lost=0, gained=0, neither=0, repeats=2)
    ]
    assert not page_of(kept=kept).all("details", "question")


def test_long_texts_are_cut_and_say_so(page_of, records):
    texts = {("base", "q0000"): "x " * 500_000, ("pr", "q0000"): "y" * 1_000_000}
    page = page_of(
        kept=records(both=0, lost=1, gained=0, neither=0, texts=texts), prompt="p" * 100_000
    )
    assert len(page.html) < 150_000
    assert "later characters: see records.sqlite" in page.html
    assert "92,000 earlier characters: see records.sqlite" in page.html


def test_questions_that_hang_on_the_grader_are_named(page_of, records):
    second = {"mini-gsm8k": {"by": "math-verify", "pairs": 5, "items": ["q0170", "q0173"]}}
    page = page_of(kept=records(), extractors=second)
    assert "On 2 questions" in page.one("p", "warning")["text"]
    assert "math-verify disagrees on q0170 and q0173." in page.one("p", "warning")["text"]
    agreed = {"mini-gsm8k": {"by": "math-verify", "pairs": 5, "items": []}}
    assert not page_of(kept=records(), extractors=agreed).all("p", "warning")

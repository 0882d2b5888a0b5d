"""The page in a real browser: what its script does, what it reaches for, who can use it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from reports import overview, render

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
STATES = ("pass", "fail", "inconclusive", "invalid", "kernel", "answers", "overview")
LOOKS = [("light", 1280), ("dark", 360)]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        if os.environ.get("KERNELPROOF_REQUIRE_DATA"):
            pytest.fail("no chromium: install Debian's package of that name")
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def tab(browser):
    """Open a run's page in a tab of its own; it remembers what the page did wrong."""
    contexts = []

    def open_tab(path, fragment=""):
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.wrong, page.asked = [], []
        page.on("console", lambda said: said.type == "error" and page.wrong.append(said.text))
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(path.as_uri() + fragment)
        return page

    yield open_tab
    for context in contexts:
        context.close()


@pytest.fixture
def run_in(write_run, make_suite, make_kernel, finding, records):
    """The page of a run in one of STATES."""

    def write(state):
        if state == "overview":
            folders = [write(each).parent for each in ("pass", "fail", "kernel")]
            page, _ = overview(folders, folders[0].parents[1])
            return page
        verdict = "pass" if state in {"kernel", "answers"} else state
        findings = [finding(case=f"T={n}") for n in range(5)] if state == "fail" else []
        folder = write_run(
            verdict=verdict,
            suites=[] if state == "kernel" else [make_suite(verdict=verdict)],
            kernel=None if state == "answers" else make_kernel(findings),
            kept=None if state == "kernel" else records(),
        )
        return render(folder)

    return write


@pytest.mark.parametrize("state", STATES)
def test_everybody_can_read_it_and_it_reaches_for_nothing(tab, run_in, state):
    from axe_playwright_python.sync_playwright import Axe

    path = run_in(state)
    page = tab(path)
    page.eval_on_selector_all("details", "all => all.forEach(details => details.open = true)")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for scheme, width in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.screenshot(path=SCREENSHOTS / f"{state}-{scheme}-{width}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page).response["violations"]
        assert [(v["id"], v["nodes"][0]["html"]) for v in found] == []
    assert page.asked == [path.as_uri()]
    assert page.wrong == []


def shown(page):
    return page.locator("details.question:visible .item").all_text_contents()


def test_disagreements_are_found_and_ordered(tab, run_in):
    page = tab(run_in("pass"))
    assert shown(page) == ["q0170", "q0171", "q0172", "q0173", "q0174"]
    page.get_by_label("Show").select_option("gained")
    assert shown(page) == ["q0173", "q0174"]
    assert page.locator("form.tools output").inner_text() == "2 of 5 shown"
    page.get_by_role("searchbox", name="Find").fill("Q0174")
    assert shown(page) == ["q0174"]
    page.get_by_role("searchbox", name="Find").fill("")
    page.get_by_label("Show").select_option("")
    page.get_by_label("Order").select_option("item")
    assert shown(page) == ["q0170", "q0171", "q0172", "q0173", "q0174"]


def test_the_longest_answer_comes_first_if_asked(tab, write_run, make_suite, records):
    from msgspec.structs import replace

    kept = list(records(both=0, lost=12, gained=0, neither=0))
    kept = [replace(r, completion_tokens=int(r.item[1:]) * 7 % 12) for r in kept]
    folder = write_run(suites=[make_suite(items=12, both=0, lost=12, gained=0)], kept=kept)
    page = tab(render(folder))
    page.get_by_label("Order").select_option("tokens")
    lengths = [int(name[1:]) * 7 % 12 for name in shown(page)]
    assert lengths == sorted(lengths, reverse=True)


def test_a_link_to_a_question_can_be_sent_and_opens_it(tab, run_in):
    path = run_in("pass")
    page = tab(path)
    question = page.locator("details.question").nth(3)
    question.locator("summary").click()
    question.locator("a.copy").click()
    assert question.locator("a.copy").inner_text() == "Link copied"
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(path.as_uri() + "#question-")
    sent = tab(path, "#" + link.partition("#")[2])
    opened = sent.locator("details.question[open] .item")
    assert opened.all_text_contents() == ["q0173"]
    assert sent.wrong == []


def test_the_data_are_had_as_a_file(tab, run_in):
    page = tab(run_in("pass"))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download as JSON").click()
    assert saved.value.suggested_filename == "run.json"
    assert '"records"' in Path(saved.value.path()).read_text(encoding="utf-8")


def test_paper_shows_what_the_screen_hides(tab, run_in):
    page = tab(run_in("fail"))
    closed = page.locator("details:not([open])")
    before = closed.count()
    assert before > 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert closed.count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert closed.count() == before
    assert page.pdf().startswith(b"%PDF")


def test_model_output_does_nothing_in_a_browser(tab, write_run, records):
    hostile = (
        "</pre></details><script>document.title='owned'</script><img src=x onerror=alert(1)>"
        '{{ 7 * 7 }} " onmouseover="alert(1) \x1b[31m \x00 \u202e </script> --> ' + "a" * 10**6
    )
    kept = list(records(texts={("pr", "q0171"): hostile, ("base", "q0173"): hostile}))
    folder = write_run(kept=kept, prompt=hostile, target=hostile[:300])
    path = render(folder)
    assert path.stat().st_size < 3_000_000
    page = tab(path)
    page.eval_on_selector_all("details", "all => all.forEach(details => details.open = true)")
    assert page.title() == "Passes: run · kernelproof"
    assert page.locator("img").count() == 0
    assert page.asked == [path.as_uri()]
    assert page.wrong == []

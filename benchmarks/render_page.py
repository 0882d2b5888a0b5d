"""How long a page takes: to write on one core, and to open in Chromium.

    python benchmarks/render_page.py

Synthetic runs of two sizes: GSM8K, AIME and GPQA four times over, and one suite of 20,000
questions. Chromium must be installed, and playwright, which the test group brings.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from reports import render
from verify.store import Record, Store, StoredItem

RUNS = {
    "three suites, 4 repeats": ({"gsm8k": 1319, "aime26": 30, "gpqa_diamond": 198}, 4),
    "20,000 questions": ({"gsm8k": 20_000}, 1),
}
FLIPS = 0.02
WORDS = (
    "the",
    "price",
    "of",
    "all",
    "apples",
    "is",
    "then",
    "twice",
    "what",
    "was",
    "left",
    "over",
)
FIGURES = {"verdict": "pass", "difference_pt": -0.3, "interval_pt": [-0.89, 0.2]}


def write_run(folder: Path, sizes: dict[str, int], repeats: int) -> None:
    """A run folder as verify.evals leaves it, with answers of 120 words."""
    draw = random.Random(0)  # noqa: S311 - figures that repeat, no secrets
    with Store.open(folder / "records.sqlite") as store:
        for suite, size in sizes.items():
            prompts = [" ".join(draw.choices(WORDS, k=60)) for _ in range(size)]
            store.add_items(StoredItem(suite, f"q{n}", p, "42") for n, p in enumerate(prompts))
            for number in range(size):
                flipped = draw.random() < FLIPS
                for repeat in range(repeats):
                    for arm in ("base", "pr"):
                        right = not (flipped and arm == "pr")
                        store.add(_record(draw, suite, f"q{number}", repeat, arm, right=right))
    suites = [{"suite": suite, "items": size, **FIGURES} for suite, size in sizes.items()]
    (folder / "result.json").write_text(json.dumps({"verdict": "pass", "suites": suites}))


def _record(
    draw: random.Random, suite: str, item: str, repeat: int, arm: str, *, right: bool
) -> Record:
    answer = "42" if right else "41"
    return Record(
        suite=suite,
        item=item,
        repeat=repeat,
        arm=arm,
        correct=right,
        truncated=False,
        prompt_sha256="p" * 64,
        target_sha256="t" * 64,
        completion_tokens=150,
        text=f"{' '.join(draw.choices(WORDS, k=120))} #### {answer}",
        answer=answer,
        rule="after-hashes",
    )


def main() -> None:
    """Print seconds and bytes of each run's page."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pages = {}
    with tempfile.TemporaryDirectory() as place:
        for name, (sizes, repeats) in RUNS.items():
            folder = Path(place) / name.replace(" ", "-").replace(",", "")
            folder.mkdir()
            write_run(folder, sizes, repeats)
            began = time.perf_counter(), time.process_time()
            pages[name] = render(folder)
            wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
            size = pages[name].stat().st_size / 1e6
            print(f"{name}: written in {wall:.2f} s ({cpu:.2f} s of processor), {size:.2f} MB")
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        open_pages(pages)


def open_pages(pages: dict[str, Path]) -> None:
    """Print the seconds until each page is painted; the first one only warms the browser up."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for name, path in [("warm-up", next(iter(pages.values()))), *pages.items()]:
            tab = browser.new_page()
            began = time.perf_counter()
            tab.goto(path.as_uri(), wait_until="load")
            tab.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
            print(f"{name}: opened in {time.perf_counter() - began:.2f} s")
            tab.close()
        browser.close()


if __name__ == "__main__":
    main()

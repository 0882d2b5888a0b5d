import asyncio
import gzip
import os

import pytest

from verify import evidence
from verify.evidence import Evidence, counted

PROMETHEUS = """# HELP fused_total calls
# TYPE fused_total counter
fused_total{rank="0",path="a b"} 3
fused_total{rank="1"} 4.0
fused_other_total 100
unfused 9
fused_total_more 100
"""


@pytest.mark.parametrize(
    ("page", "count"),
    [
        (PROMETHEUS, 7),
        ("fused 5\n", 5),
        ("fused 1e3 1700000000\n", 1000),
        ('{"fused": 5}', 5),
        ('{"fused": "x"}', None),
        ('{"other": 5}', None),
        ("[]", None),
        ("", None),
        ("fused NaNsense\n", None),
        ("fused --\n", 0),
    ],
)
def test_counters_are_read(page, count):
    assert counted(page, "fused") == count


def watch(place, pages=(), between=lambda: None):
    pages = iter(pages)

    async def read(_):
        return next(pages, None)

    async def go():
        found = Evidence({"fused": place}, read)
        for _ in range(2):  # two starts
            await found.begin()
            between()
            await found.end()
        return found.counts["fused"]

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("pages", "count"),
    [
        (["fused 1", "fused 4", "fused 4", "fused 6"], 5),
        (["fused 5", "fused 9", "fused 0", "fused 2"], 6),
        (["fused 5", "fused 2", "fused 2", "fused 2"], 2),  # it was restarted in between
        ([None, "fused 2", None, None], 2),
        ([None] * 4, 0),
    ],
)
def test_a_counter_counts_what_it_moved(pages, count):
    assert watch("http://x/metrics", pages) == count


def test_traces_count_that_were_written_since(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "_CHUNK", 7)  # names lie across chunks
    (tmp_path / "old.json").write_text("fused " * 9)
    os.utime(tmp_path / "old.json", (1, 1))
    (tmp_path / "other.txt").write_text("fused")

    def trace():
        (tmp_path / "a.json").write_text("fused, and fused again; unfused")
        with gzip.open(tmp_path / "b.json.gz", "wt") as file:
            file.write("x" * 50 + "fused")

    def torn():
        trace()
        whole = (tmp_path / "b.json.gz").read_bytes()
        (tmp_path / "b.json.gz").write_bytes(whole[:8])

    assert watch(str(tmp_path / "*.json"), between=trace) == 2 * 3
    assert watch(str(tmp_path / "*.json*"), between=trace) == 2 * 4
    assert watch(str(tmp_path / "*.json*"), between=torn) == 2 * 3
    assert watch(str(tmp_path / "nowhere" / "*")) == 0

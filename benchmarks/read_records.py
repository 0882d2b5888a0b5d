"""How fast two large files of records are read and paired: processor time and memory.

    python benchmarks/read_records.py [LINES]

Writes two files of LINES (10^6) records each, in different orders, to a temporary folder, reads
them and pairs them with `verify.logs`.
"""

from __future__ import annotations

import hashlib
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from verify import logs


def write(path: Path, lines: int, seed: int) -> None:
    """One record a line, in an order of its own."""
    stream = random.Random(seed)  # noqa: S311 - test data
    order = list(range(lines))
    stream.shuffle(order)
    with path.open("w", encoding="utf-8") as file:
        for number in order:
            item = hashlib.sha256(str(number).encode()).hexdigest()
            correct = "true" if stream.random() < 0.9 else "false"
            file.write(
                f'{{"suite": "gsm8k", "item": "{item}", "repeat": 0, "correct": {correct}, '
                f'"truncated": false, "error": null, "prompt_sha256": "{item[::-1]}", '
                f'"target_sha256": "{item[1:]}0", "completion_tokens": {number % 500}}}\n'
            )


def main(lines: int) -> None:
    """Write, read, match, and print what each took."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "base.jsonl", Path(folder) / "pr.jsonl"]
        for seed, path in enumerate(paths):
            write(path, lines, seed)
        megabytes = sum(path.stat().st_size for path in paths) / 1e6
        start = time.process_time()
        base, pr = (logs.read(path).suites["gsm8k"] for path in paths)
        read = time.process_time()
        pairs = logs.pair(base, pr)
        done = time.process_time()
        lost = int((pairs.base.score > pairs.pr.score).sum())
        gained = int((pairs.base.score < pairs.pr.score).sum())
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{lines} lines twice, {megabytes:.0f} MB: read {read - start:.2f} s, ", end="")
    print(f"paired {done - read:.2f} s ({lost} lost, {gained} gained), {memory:.0f} MB at most")


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**6)

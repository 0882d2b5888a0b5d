"""How fast two large files of records are read, paired and compared: processor time, memory.

    python benchmarks/read_records.py [LINES]

Writes two files of LINES (10^6) records each, in different orders, to a temporary folder, and
takes them the way that `python -m verify.evals compare` does.
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
from verify.pairs import scores
from verify.stats.suite import judge


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
    """Write, read, match, judge, and print what each took."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "base.jsonl", Path(folder) / "pr.jsonl"]
        for seed, path in enumerate(paths):
            write(path, lines, seed)
        megabytes = sum(path.stat().st_size for path in paths) / 1e6
        start = time.process_time()
        base, pr = (logs.read(path).suites["gsm8k"] for path in paths)
        read = time.process_time()
        pairs = logs.pair(base, pr)
        paired = time.process_time()
        (found,) = judge([scores("gsm8k", pairs, margin=0.01, floor=0.05)])
        done = time.process_time()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{lines} lines twice, {megabytes:.0f} MB: read {read - start:.2f} s, ", end="")
    print(f"paired {paired - read:.2f} s, judged {done - paired:.2f} s, ", end="")
    print(f"together {done - start:.2f} s, {memory:.0f} MB at most: {found.verdict}, ", end="")
    print(f"{found.lost} lost, {found.gained} gained")


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**6)

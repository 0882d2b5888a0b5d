"""How fast two large files of records are read and matched: processor time and memory.

    python benchmarks/read_records.py [LINES]

Writes two files of LINES (10^6) records each, in different orders, to a temporary folder, reads
them with `verify.logs` and matches items and scores with numpy.
"""

from __future__ import annotations

import hashlib
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

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


def match(base: logs.Columns, pr: logs.Columns) -> tuple[int, int]:
    """Items only base got right, and only pr."""
    code = np.array(list(map(pr.items.__getitem__, base.items)))[base.item]
    row = np.empty(len(pr.items), np.int64)
    row[pr.item] = np.arange(len(pr))
    row = row[code]
    if (base.prompt != pr.prompt[row]).any() or (base.target != pr.target[row]).any():
        raise SystemExit("prompts or targets differ")
    return (
        int(np.sum(base.score > pr.score[row])),
        int(np.sum(base.score < pr.score[row])),
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
        lost, gained = match(base, pr)
        done = time.process_time()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{lines} lines twice, {megabytes:.0f} MB: read {read - start:.2f} s, ", end="")
    print(f"matched {done - read:.2f} s ({lost} lost, {gained} gained), {memory:.0f} MB at most")


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**6)

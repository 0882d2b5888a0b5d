"""Rows of a suite: from a file of JSON lines, CSV or parquet, or from a set on the hub."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Rows = list[dict[str, Any]]


class SuiteError(ValueError):
    """A suite that cannot be used; one line that names the file, the value and the remedy."""


def from_file(path: Path) -> tuple[Rows, str]:
    """Every row of a file, and the SHA-256 of the file.

    `.csv` and `.parquet` are read as such, anything else as one JSON object a line.

    Raises:
        SuiteError: it cannot be read, or is not of that form.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SuiteError(
            f"{path} cannot be read ({error.strerror}); name a readable file"
        ) from None
    read = _READERS.get(path.suffix.lower(), _json_lines)
    return read(path, content), hashlib.sha256(content).hexdigest()


def from_hub(
    name: str, config: str | None, split: str | None, revision: str | None
) -> tuple[Rows, str]:
    """Every row of a set on the hub, and the SHA-256 of the rows as one JSON object a line.

    Raises:
        SuiteError: it cannot be loaded.
    """
    try:
        import datasets  # noqa: PLC0415 - seconds of import, and an optional extra
    except ModuleNotFoundError as error:
        raise SuiteError(
            f"{name} on the hub needs {error.name}; install kernelproof with its extra: evals, or "
            "name a local file with --data SUITE=PATH"
        ) from None
    for logger in ("huggingface_hub", "datasets"):  # they narrate each of their own retries
        logging.getLogger(logger).setLevel(logging.ERROR)
    try:
        found = datasets.load_dataset(name, config, split=split, revision=revision)
        rows = [dict(row) for row in found]
    except Exception as error:  # noqa: BLE001 - the hub fails in as many ways as it has layers
        why = f"{type(error).__name__}: {error}"
        raise SuiteError(
            f"{name} could not be loaded from the hub ({' '.join(why.split())[:160]}); "
            "check the network, or name a local file with --data SUITE=PATH"
        ) from None
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    return rows, hashlib.sha256(lines.encode()).hexdigest()


def _json_lines(path: Path, content: bytes) -> Rows:
    rows = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise SuiteError(f"{path}: line {number} is not JSON ({error})") from None
        if not isinstance(row, dict):
            raise SuiteError(f"{path}: line {number} is not a JSON object")
        rows.append(row)
    return rows


def _csv(path: Path, content: bytes) -> Rows:
    csv.field_size_limit(1 << 24)  # a question may be long
    try:
        text = io.StringIO(content.decode("utf-8-sig"), newline="")
        return list(csv.DictReader(text, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise SuiteError(f"{path} is no CSV ({error}); write it as UTF-8") from None


def _parquet(path: Path, content: bytes) -> Rows:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an optional extra
        import pyarrow.parquet as pq  # noqa: PLC0415 - likewise
    except ModuleNotFoundError as error:
        raise SuiteError(
            f"{path} needs {error.name}; install kernelproof with its extra: evals"
        ) from None
    try:
        rows: Rows = pq.read_table(io.BytesIO(content)).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise SuiteError(f"{path} is no parquet ({' '.join(str(error).split())[:160]})") from None
    return rows


_READERS: dict[str, Callable[[Path, bytes], Rows]] = {".csv": _csv, ".parquet": _parquet}

"""In what two arms differ beside what was declared to differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verify.arms import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ALWAYS = ("base_url", "commit", "source")
"""What tells two arms apart in the first place."""
_VERSIONS = ("version", "build_info")


def differences(arms: Mapping[str, Mapping[str, Any]], declared: Sequence[str]) -> Iterator[str]:
    """One line for each setting in which two arms differ and that nobody declared to.

    Args:
        arms: by name, base first, what is fixed of each, nested as it may be.
        declared: names of settings, whole (`body.top_k`) or any part of them (`body`, `top_k`).
    """
    (base_name, base), (pr_name, pr) = arms.items()
    allowed = {*ALWAYS, *declared}
    if "model" in declared:
        allowed.add("says.models")
    if base.get("commit") != pr.get("commit"):  # of another source they are other builds
        allowed.update(_VERSIONS)
    for name, one, other in unequal(base, pr):
        parts = name.split(".")
        places = range(len(parts) + 1)
        runs = {".".join(parts[start:stop]) for stop in places for start in places[:stop]}
        if not allowed & runs:
            yield (
                f"{base_name} and {pr_name} differ in {one_line(name)}: {_shown(one)} against "
                f"{_shown(other)}; make them equal, or declare it with --differ {one_line(name)}"
            )


def unequal(
    one: Mapping[str, Any], other: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    """Dotted name and both values of every setting that is not the same; None where it is not."""
    ones, others = dict(_flat(one)), dict(_flat(other))
    for name in dict.fromkeys([*ones, *others]):
        if ones.get(name) != others.get(name):
            yield name, ones.get(name), others.get(name)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf under its dotted name; lists are leaves, but for lists of objects."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for number, each in enumerate(value):
            yield from _flat(each, f"{name}.{number}")
    else:
        yield name, value


def _shown(value: Any) -> str:
    text = one_line(repr(value))
    return text if len(text) <= 80 else f"{text[:77]}..."

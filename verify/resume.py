"""What must be the same when a run goes on where it was interrupted."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from verify.command import ROOT, UserError
from verify.store import Differs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from verify.arms import Arm
    from verify.store import Store
    from verify.task import Rules, Task


def of_run(tasks: Sequence[Task], rules: Rules) -> dict[str, str]:
    """By name, what is asked and how it will be judged."""
    found: dict[str, Any] = {
        "the seed": rules.seed,
        "early stop": rules.early_stop,
        "the certificate": rules.certify,
        "--extend-capped": rules.extend_capped,
        "the suites": ", ".join(task.name for task in tasks),
        "kernelproof's graders": _graders(),
    }
    for task in tasks:
        sampling = task.suite.spec.sampling
        about = {
            "suite.toml": task.suite.sha256,
            "data": task.questions.sha256,
            "sampling": str(sampling),
            "margin": task.margin_pt,
            "number of items": len(task.items),
            "number of repeats": len(task.orders),
            "items": _hash(item.id for item in task.items),
            "prompts": _hash(item.prompt_sha256 for item in task.items),
            "targets": _hash(item.target_sha256 for item in task.items),
            "orders": _hash(str(order) for order in task.orders),
            "sampling seed": task.sampling_seed,
        }
        found |= {f"{name} of {task.name}": value for name, value in about.items()}
    return {name: str(value) for name, value in found.items()}


def of_arms(arms: Sequence[Arm]) -> dict[str, str]:
    """By name, what arms that are started say of themselves."""
    return {
        f"{name} of arm {arm.name}": value if isinstance(value, str) else json.dumps(value)
        for arm in arms
        for name, value in arm.fixed().items()
    }


def claim(store: Store, fixed: Mapping[str, str]) -> None:
    """Hold the run to `fixed`.

    Raises:
        UserError: it was begun with something else.
    """
    try:
        store.claim(fixed)
    except Differs as error:
        raise UserError(
            f"this run was begun otherwise and cannot go on: {error.name} was {error.was[:80]}, "
            f"and is {error.now[:80]}; ask as before, or name another folder with --out"
        ) from None


def _graders() -> str:
    sources = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "evals").glob("*.py"))]
    return _hash(sources)


def _hash(parts: Iterable[str]) -> str:
    """Of several texts, in their order: short enough to be shown."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

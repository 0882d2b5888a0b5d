"""Reads evalscope's reviews and, beside them, its predictions; both in completion order."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from verify.logs.source import Found, choose, flat, objects, typed
from verify.logs.table import Builder, Choice, Row
from verify.logs.values import as_score, refuse, sha256
from verify.verdict import WRONG_USE

if TYPE_CHECKING:
    from pathlib import Path

    from verify.logs.source import Setting

NAME = "evalscope"
_USABLE = ("success", "fallback")  # evalscope's own rule: any other status carries no score


class _Score(msgspec.Struct):
    value: dict[str, Any]
    status: str = "success"
    main_score_name: str | None = None
    extracted_prediction: Any = None
    prediction: str | None = None


class _SampleScore(msgspec.Struct):
    score: _Score
    group_id: int | str | None = None
    generation_index: int | None = None


class _Message(msgspec.Struct):
    role: str
    content: Any = None


class _Review(msgspec.Struct):
    index: int
    sample_score: _SampleScore
    target: Any = None
    messages: list[_Message] = []
    input: Any = None  # in place of messages, in older logs


class _Choice(msgspec.Struct):
    stop_reason: str | None = None


class _Output(msgspec.Struct):
    choices: list[_Choice] = []
    usage: dict[str, Any] | None = None
    error: Any = None


class _Config(msgspec.Struct):
    model: Any = None
    api_url: Any = None
    generation_config: Any = None
    seed: Any = None
    dataset_args: dict[str, Any] | None = None
    eval_batch_size: Any = None


class _Prediction(msgspec.Struct):
    index: int
    model: str = ""
    model_output: _Output | None = None


def read(path: Path, builder: Builder, choice: Choice) -> Found:
    """Add the records of a reviews file, joined on `index` with the predictions of the same run.

    An item is a sample's group, so that a benchmark's repeats count as repeats of one item.
    """
    reviews = [(line, typed(_Review, raw, path, line)) for line, raw in objects(path)]
    predictions = _predictions(path)
    metric = _metric(reviews, choice, path)
    repeats = _repeats([review for _, review in reviews])
    seen: dict[int, int] = {}
    rows = []
    for line, review in reviews:
        if review.index in seen:
            raise refuse(
                path,
                line,
                f"index {review.index} stands already in line {seen[review.index]}; "
                "have evalscope review the run again",
            )
        seen[review.index] = line
        row = _row(review, metric, path, line)
        row.suite = path.stem
        row.repeat = repeats[review.index]
        _join(row, predictions.pop(review.index, None))
        rows.append(row)
    builder.extend(rows, [line for line, _ in reviews])
    # What is left was answered and never reviewed; evalscope leaves it out of its average.
    left = [_unreviewed(p, path.stem) for _, p in sorted(predictions.items())]
    if left:
        builder.extend(left, [len(reviews)] * len(left))
    return Found(_settings(path), notes=_notes(path, left, rows))


def _beside(path: Path) -> Path:
    """The predictions file of the run that `path` reviews."""
    model = path.resolve().parent  # a relative path may have no parents to go up to
    return model.parent.parent / "predictions" / model.name / path.name


def _predictions(path: Path) -> dict[int, _Prediction]:
    beside = _beside(path)
    if not beside.is_file():
        return {}
    found: dict[int, _Prediction] = {}
    for line, raw in objects(beside):
        prediction = typed(_Prediction, raw, beside, line)
        if prediction.index in found:
            raise refuse(beside, line, f"index {prediction.index} twice; have the run made again")
        found[prediction.index] = prediction
    return found


def _metric(reviews: list[tuple[int, _Review]], choice: Choice, path: Path) -> str:
    """The score to take: the chosen one, else the one evalscope calls main, else the only one."""
    scores = [review.sample_score.score for _, review in reviews]
    main = {score.main_score_name for score in scores if score.main_score_name}
    held = {name for score in scores for name in score.value}
    if choice.metric is None and len(main) == 1 and main <= held:
        return str(main.pop())
    if not held:
        raise refuse(path, None, "no answer has a score; have evalscope review the run again")
    return choose("metric", held, choice.metric, path)


def _repeats(reviews: list[_Review]) -> dict[int, int]:
    """Each sample's repeat: as recorded, else its rank among its group's indices."""
    groups = defaultdict(list)
    for review in reviews:
        groups[_item(review)].append(review)
    repeats = {}
    for group in groups.values():
        for rank, review in enumerate(sorted(group, key=lambda r: r.index)):
            recorded = review.sample_score.generation_index
            repeats[review.index] = rank if recorded is None else recorded
    return repeats


def _item(review: _Review) -> str:
    group = review.sample_score.group_id
    return str(review.index if group is None else group)


def _row(review: _Review, metric: str, path: Path, line: int) -> Row:
    score = review.sample_score.score
    usable = score.status in _USABLE and metric in score.value
    try:
        correct = as_score(score.value[metric]) if usable else None
    except ValueError as error:
        raise refuse(path, line, f"{metric}: {error}") from None
    extracted = score.extracted_prediction
    return Row(
        item=_item(review),
        correct=correct,
        error=None if usable else f"not scored (status {score.status})",
        prompt_sha256=sha256(_prompt(review)),
        target_sha256=sha256(review.target) if review.target is not None else None,
        text=score.prediction,
        answer=extracted if isinstance(extracted, str) else None,
        rule=metric,
    )


def _prompt(review: _Review) -> Any:
    """What was asked: all before the last answer, without the ids that differ between runs."""
    messages = [(m.role, m.content) for m in review.messages]
    last = max((i for i, (role, _) in enumerate(messages) if role == "assistant"), default=None)
    return messages[:last] if messages else review.input


def _join(row: Row, prediction: _Prediction | None) -> None:
    output = prediction.model_output if prediction else None
    if output is None:
        return
    reason = output.choices[0].stop_reason if output.choices else None
    row.truncated = reason in ("max_tokens", "model_length", "length") if reason else None
    tokens = (output.usage or {}).get("output_tokens")
    row.completion_tokens = tokens if isinstance(tokens, int) else None
    if output.error:
        row.error = str(output.error)


def _unreviewed(prediction: _Prediction, suite: str) -> Row:
    return Row(
        item=str(prediction.index), correct=None, suite=suite, error="answered, not reviewed"
    )


def _settings(path: Path) -> dict[str, Setting]:
    config_file = path.resolve().parent.parent.parent / "configs" / "task_config.yaml"
    if not config_file.is_file():
        return flat("harness.name", NAME)
    try:
        import yaml  # noqa: PLC0415 - an extra: other formats do without it
    except ImportError:
        raise refuse(
            config_file, None, "install kernelproof[evals] for PyYAML to read it", WRONG_USE
        ) from None
    try:
        found = yaml.safe_load(config_file.read_text("utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError):
        raise refuse(config_file, None, "is no YAML; move it away to go on without it") from None
    config = typed(_Config, found, config_file, None)
    arguments = config.dataset_args or {}
    return {
        **flat("harness.name", NAME),
        **flat("model", config.model),
        **flat("server", config.api_url),
        **flat("sampling", config.generation_config),
        **flat("prompt.seed", config.seed),
        **flat("task", {k: v for k, v in arguments.items() if path.stem.startswith(k)}),
        **flat("load.batch_size", config.eval_batch_size),
    }


def _notes(path: Path, left: list[Row], rows: list[Row]) -> tuple[str, ...]:
    notes = []
    if not _beside(path).is_file():
        notes.append(f"no predictions beside {path.name}: truncation and errors are unknown")
    if left:
        notes.append(f"{len(left)} answers were never reviewed; they count as unanswered")
    unscored = sum(row.correct is None for row in rows)
    if unscored:
        notes.append(f"{unscored} answers without a score, left out by evalscope, are unanswered")
    return tuple(notes)

"""Merges equal recommendations for neighbouring sizes into one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import groupby

from modescope.analysis.format import phrases
from modescope.analysis.recommend import sentences
from modescope.analysis.recommend.types import MODE, Question, Recommendation
from modescope.bench.records.ids import canonical_json


@dataclass(frozen=True)
class Span:
    """Neighbouring measured sizes with one answer."""

    label: str  # `batch ≤ 16`, `batch 32 to 256`; empty where only one shape was measured
    recommendations: tuple[Recommendation, ...]  # in the order of the size
    text: str  # the answer, in a clause


@dataclass(frozen=True)
class Advice:
    """All that is recommended for one work over one of its sizes."""

    subject: str  # `transformer, seq 64, inference, fp32`
    spans: tuple[Span, ...]
    text: str  # the whole sentence
    remarks: tuple[str, ...]  # further sentences, with the sizes that they concern

    @property
    def programs(self) -> dict[str, str]:
        """The code of each mode that is better than the baseline, by its name: `amp bf16`."""
        answers = (one for span in self.spans for one in span.recommendations)
        chosen = [one.choice for one in answers if one.choice and one.outcome == MODE]
        return {f"{choice.mode} {choice.dtype}": choice.code for choice in chosen}


def fold(answers: Sequence[Recommendation]) -> tuple[Advice, ...]:
    """One Advice per work, place, precision and baseline, merged over the batch where it varies.

    If a single other size varies, over that size. A span names only measured sizes; `batch ≤ 16`
    is used from batch 1 on, because there is no smaller batch.
    """
    places = len({(a.question.environment, a.question.device, a.question.threads) for a in answers})
    by_work = phrases.grouped((astuple(replace(a.question, shape="")), a) for a in answers)
    return tuple(
        _advice(size, others, part, places > 1)
        for members in by_work.values()
        for (size, others), part in _series(members)
    )


def _series(
    answers: Sequence[Recommendation],
) -> Iterable[tuple[tuple[str | None, str], list[Recommendation]]]:
    """The size to merge over (None: none) and the values of the others -> answers, sorted by it."""
    shapes = [json.loads(answer.question.shape) for answer in answers]
    values: dict[str, set[str]] = {}
    for shape in shapes:
        for name, value in shape.items():
            values.setdefault(name, set()).add(str(value))
    varying = [name for name, several in values.items() if len(several) > 1]
    size = varying[0] if len(varying) == 1 else "batch" if "batch" in varying else None
    parts: dict[tuple[str | None, str], list[tuple[int, Recommendation]]] = {}
    for shape, answer in zip(shapes, answers, strict=True):
        folded = size if size in shape else None
        others = canonical_json({n: v for n, v in shape.items() if n != folded})
        place = 0 if folded is None else shape[folded]
        parts.setdefault((folded, others), []).append((place, answer))
    for key, placed in parts.items():
        yield key, [answer for _, answer in sorted(placed, key=lambda pair: pair[0])]


def _advice(
    size: str | None, others: str, answers: Sequence[Recommendation], placed: bool
) -> Advice:
    subject = _subject(answers[0].question, others, placed)
    if size is None:
        spans = [Span("", (answer,), answer.headline) for answer in answers]
    else:
        spans = list(_spans(size, answers))
    text = "; ".join(f"{span.label}: {span.text}" if span.label else span.text for span in spans)
    return Advice(subject, tuple(spans), f"{subject}: {text}", tuple(_remarks(size, answers)))


def _remarks(size: str | None, answers: Sequence[Recommendation]) -> Iterable[str]:
    """The remarks on all answers; one that does not concern all of them names its sizes."""
    named = phrases.grouped(
        (remark, str(json.loads(answer.question.shape).get(size, "")))
        for answer in answers
        for remark in dict.fromkeys(answer.remarks)  # two rows may have the same remark
    )
    for remark, sizes in named.items():
        whole = len(sizes) == len(answers)
        yield remark if whole else f"At {size} {phrases.listed(sizes)}: {remark}"


def _subject(question: Question, others: str, placed: bool) -> str:
    row = asdict(question)
    cache = question.compile_cache
    parts = (
        phrases.work_at(row, others),
        question.dtype,
        "" if cache == "cold" else f"{cache} compiler cache",
        phrases.place(row, letter=True) if placed else "",
    )
    return ", ".join(filter(None, parts))


def _spans(size: str, answers: Sequence[Recommendation]) -> Iterable[Span]:
    sizes = [json.loads(answer.question.shape)[size] for answer in answers]
    placed = list(zip(sizes, answers, strict=True))
    for _, run in groupby(placed, key=lambda pair: _answer(pair[1])):
        members = list(run)
        measured = [place for place, _ in members]
        label = _label(size, measured, len(set(sizes)))
        same = tuple(answer for _, answer in members)
        yield Span(label, same, sentences.together(same))


def _answer(one: Recommendation) -> tuple[object, ...]:
    choice = one.choice if one.outcome == MODE else None
    mode = choice.mode if choice else None
    unchecked = choice.unchecked if choice else one.baseline_unchecked
    disputed = one.disputed.run_id if one.disputed else None
    return one.outcome, mode, bool(unchecked), one.baseline_fits, disputed


def _label(size: str, measured: Sequence[int], count: int) -> str:
    """`batch ≤ 16` from batch 1 on, as there is no smaller one; else the measured range."""
    least, most = measured[0], measured[-1]
    if least == most:
        return f"{size} {least}"
    if least == 1 and len(set(measured)) < count:
        return f"{size} ≤ {most}"
    return f"{size} {least} to {most}"

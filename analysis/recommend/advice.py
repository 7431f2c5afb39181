"""Recommendations by work: the best precision first, neighbouring sizes merged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import groupby

from modescope.analysis.format import phrases
from modescope.analysis.recommend import types
from modescope.analysis.recommend.sentences import certainty, clause, remarks
from modescope.analysis.recommend.types import MODE, Question, Recommendation, low
from modescope.bench.records.cases import canonical_json


@dataclass(frozen=True)
class Span:
    """Neighbouring measured sizes with one answer."""

    label: str  # `batch ≤ 16`, `batch 32 to 256`; empty where only one shape was measured
    recommendations: tuple[Recommendation, ...]  # in the order of the size
    text: str  # the answer, in a clause


@dataclass(frozen=True)
class Precision:
    """All that is recommended for one work at one precision, over one of its sizes."""

    name: str  # `bf16`, `fp32, warm compiler cache`
    spans: tuple[Span, ...]
    remarks: tuple[str, ...]  # further sentences, with the sizes that they concern

    @property
    def recommendations(self) -> list[Recommendation]:
        """Those of all its sizes."""
        return [one for span in self.spans for one in span.recommendations]

    @property
    def text(self) -> str:
        """`fp32: batch ≤ 16: no_grad, ...; batch 64: compile, ...`."""
        spans = (f"{span.label}: {span.text}" if span.label else span.text for span in self.spans)
        return f"{self.name}: {'; '.join(spans)}"

    @property
    def programs(self) -> dict[str, str]:
        """The code of each mode that is better than the baseline, by its name: `amp bf16`."""
        chosen = (one.choice for one in self.recommendations if one.outcome == MODE)
        return {f"{one.mode} {one.dtype}": one.code for one in chosen if one}


@dataclass(frozen=True)
class Advice:
    """All that is recommended for one work on one machine."""

    work: str  # with the sizes that all answers share
    precisions: tuple[Precision, ...]  # that with the largest gain first

    @property
    def recommendations(self) -> list[Recommendation]:
        """Those of all precisions."""
        return [one for precision in self.precisions for one in precision.recommendations]

    @property
    def certainty(self) -> str:
        """How sure the answers are, in a sentence; empty where there is none."""
        answers = [one for one in self.recommendations if one.outcome != types.NOTHING]
        parts = [*certainty(answers)] if answers else []
        return f"How sure: {'; '.join(parts)}." if parts else ""


def fold(answers: Sequence[Recommendation]) -> tuple[Advice, ...]:
    """One Advice per work and place, merged over the batch where it varies.

    If a single other size varies, over that size. A span names only measured sizes; `batch ≤ 16`
    is used from batch 1 on, because there is no smaller batch. The precision whose mode gains most
    comes first; without a gain that of the baseline.
    """
    places = len({(a.question.environment, a.question.device, a.question.threads) for a in answers})
    by_contest = phrases.grouped((astuple(replace(a.question, shape="")), a) for a in answers)
    works = phrases.grouped(
        (_work(others, part[0].question, places > 1), _precision(size, part))
        for members in by_contest.values()
        for (size, others), part in _series(members)
    )
    return tuple(
        Advice(work, tuple(sorted(members, key=_preference))) for work, members in works.items()
    )


def _work(others: str, question: Question, placed: bool) -> str:
    row = asdict(question)
    work = phrases.work_at(row, others)
    return f"{work}, on {phrases.place(row, letter=True)}" if placed else work


def _preference(precision: Precision) -> tuple[bool, bool, float, bool]:
    answers = precision.recommendations
    is_none = all(one.outcome == types.NOTHING for one in answers)
    gains = [low(one.choice.speedup) for one in answers if one.choice and one.outcome == MODE]
    question = answers[0].question
    is_warm, is_other = question.compile_cache != "cold", question.dtype != question.baseline_dtype
    return is_none, is_warm, -max(gains, default=1.0), is_other


def _series(
    answers: Sequence[Recommendation],
) -> Iterable[tuple[tuple[str | None, str], list[Recommendation]]]:
    """The size to merge over (None: none) and the values of the others -> answers, sorted by it."""
    shapes = [json.loads(answer.question.shape) for answer in answers]
    names = dict.fromkeys(name for shape in shapes for name in shape)
    several = [n for n in names if len({shape[n] for shape in shapes if n in shape}) > 1]
    size = several[0] if len(several) == 1 else "batch" if "batch" in several else None
    parts: dict[tuple[str | None, str], list[tuple[int, Recommendation]]] = {}
    for shape, answer in zip(shapes, answers, strict=True):
        folded = size if size in shape else None
        others = canonical_json({n: v for n, v in shape.items() if n != folded})
        place = 0 if folded is None else shape[folded]
        parts.setdefault((folded, others), []).append((place, answer))
    for key, placed in parts.items():
        yield key, [answer for _, answer in sorted(placed, key=lambda pair: pair[0])]


def _precision(size: str | None, answers: Sequence[Recommendation]) -> Precision:
    question = answers[0].question
    cache = "" if question.compile_cache == "cold" else f", {question.compile_cache} compiler cache"
    if size is None:
        spans = [Span("", (answer,), clause([answer])) for answer in answers]
    else:
        spans = list(_spans(size, answers))
    return Precision(f"{question.dtype}{cache}", tuple(spans), tuple(_remarks_on(size, answers)))


def _remarks_on(size: str | None, answers: Sequence[Recommendation]) -> Iterator[str]:
    """The remarks on all answers; one that does not concern all of them names its sizes."""
    named = phrases.grouped(
        (remark, str(json.loads(answer.question.shape).get(size, "")))
        for answer in answers
        for remark in dict.fromkeys(remarks(answer))  # two rows may have the same remark
    )
    for remark, sizes in named.items():
        whole = len(sizes) == len(answers)
        yield remark if whole else f"At {size} {phrases.listed(sizes)}: {remark}"


def _spans(size: str, answers: Sequence[Recommendation]) -> Iterator[Span]:
    """Neighbours whose answers have the same outcome, mode and doubts."""

    def alike(placed: tuple[int, Recommendation]) -> tuple[object, ...]:
        one = placed[1]
        choice = one.choice if one.outcome == MODE else None
        doubts = choice.unchecked if choice else one.baseline_unchecked
        disputed = one.disputed.run_id if one.disputed else None
        mode = choice.mode if choice else None
        return one.outcome, mode, bool(doubts), one.baseline_fits, disputed

    sizes = [json.loads(answer.question.shape)[size] for answer in answers]
    for _, run in groupby(zip(sizes, answers, strict=True), key=alike):
        members = list(run)
        least, most = members[0][0], members[-1][0]
        label = f"{size} {least}" if least == most else f"{size} {least} to {most}"
        if least == 1 and most > 1 and len({place for place, _ in members}) < len(set(sizes)):
            label = f"{size} ≤ {most}"
        same = tuple(answer for _, answer in members)
        yield Span(label, same, clause(same))

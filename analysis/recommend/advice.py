"""Groups recommendations by what they are for, and merges neighbouring sizes with one answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import groupby

from modescope.analysis.derive.over_fp32 import LINKED
from modescope.analysis.estimates import low
from modescope.analysis.format import phrases
from modescope.analysis.recommend.types import (
    Choice,
    Outcome,
    Question,
    Recommendation,
)
from modescope.analysis.recommend.wording import certainty, clause, modes, remarks
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import grouped
from modescope.bench.records.cases import canonical_json


@dataclass(frozen=True)
class Span:
    """Neighbouring measured sizes that have the same answer."""

    label: str  # `batch ≤ 16`, `batch 32 to 256`; empty where only one shape was measured
    recommendations: tuple[Recommendation, ...]  # in the order of the size
    text: str  # the answer, in a clause

    @property
    def lead(self) -> str:
        """The name of the mode, if the answer begins with it; else empty."""
        first = self.recommendations[0]
        mode = first.choice.mode if first.choice else first.question.baseline_mode or ""
        return mode if self.text.startswith(mode) else ""

    @property
    def rest(self) -> str:
        """The part of `text` after `lead`."""
        return self.text.removeprefix(self.lead)

    @property
    def row(self) -> Row | None:
        """The row of the mode that `lead` names; None if `lead` is empty or no row exists."""
        choice = self.recommendations[0].choice
        return choice.row if choice and self.lead else None


@dataclass(frozen=True)
class Precision:
    """The recommendations for one model and phase at one precision, of packages or other modes.

    They are ordered and merged along one size, such as the batch; other sizes are fixed.
    """

    name: str  # `bf16`, `fp32 with int8-dynamic`, `fp32, ahead of time`, `fp32, warm cache`
    spans: tuple[Span, ...]
    remarks: tuple[str, ...]  # further sentences, with the sizes that they concern

    @property
    def recommendations(self) -> list[Recommendation]:
        """The recommendations at all sizes."""
        return [answer for span in self.spans for answer in span.recommendations]

    @property
    def text(self) -> str:
        """The answers at all sizes: `fp32: batch ≤ 16: no_grad, ...; batch 64: compile, ...`."""
        spans = (f"{span.label}: {span.text}" if span.label else span.text for span in self.spans)
        return f"{self.name}: {'; '.join(spans)}"

    @property
    def programs(self) -> dict[str, str]:
        """A dict from mode and dtype, such as `amp bf16`, to code that runs a recommended mode."""
        return {
            f"{choice.mode} {choice.dtype}": choice.code for choice in modes(self.recommendations)
        }


@dataclass(frozen=True)
class Advice:
    """The recommendations for one model and phase on one machine.

    `work` is the heading: it names model, sizes and phase, and the machine if there are several.
    """

    work: str  # with the sizes that all answers share
    precisions: tuple[Precision, ...]  # that with the largest gain first

    @property
    def recommendations(self) -> list[Recommendation]:
        """The recommendations at all precisions."""
        return [answer for precision in self.precisions for answer in precision.recommendations]

    @property
    def certainty(self) -> str:
        """A sentence on how sure the answers are; empty if there is no answer."""
        nothing = Outcome.NOTHING
        answers = [answer for answer in self.recommendations if answer.outcome is not nothing]
        return f"How sure: {'; '.join(certainty(answers))}." if answers else ""


def fold(answers: Sequence[Recommendation]) -> tuple[Advice, ...]:
    """Groups `answers` into an Advice per model, phase and machine, and per fixed sizes.

    Within it, neighbouring sizes with the same answer are merged into a Span. They are merged along
    the only size that varies, or along the batch if several vary; all other sizes are fixed. A span
    names only measured sizes. `batch ≤ 16` is written if the span begins at batch 1, because there
    is no smaller batch. The precision whose mode gains most comes first; if no mode gains, the
    baseline's precision. Packages come after modes that are not built ahead of time.
    """
    places = len({(a.question.environment, a.question.device, a.question.threads) for a in answers})
    by_contest = grouped((_contest(a.question), a) for a in answers)
    warm = {a.question: a for a in answers if a.question.data is None}
    works = grouped(
        (_work(others, part[0].question, places > 1), _precision(size, part, warm))
        for members in by_contest.values()
        for (size, others), part in _series(members)
    )
    return tuple(
        Advice(work, tuple(sorted(members, key=_preference))) for work, members in works.items()
    )


def _contest(question: Question) -> tuple[object, ...]:
    """Returns what answers share that are merged along a size.

    Those in tf32 may be over eager in tf32 at some sizes, and over eager in fp32 at others.
    """
    over = None if question.dtype == LINKED else question.baseline_dtype
    return astuple(replace(question, shape="", baseline_dtype=over))


def _work(others: str, question: Question, placed: bool) -> str:
    row = question.as_row()
    work = phrases.work_at(row, others)
    return f"{work}, on {phrases.place(row, letter=True)}" if placed else work


def _preference(precision: Precision) -> tuple[bool, bool, bool, float, bool]:
    answers = precision.recommendations
    is_none = all(answer.outcome is Outcome.NOTHING for answer in answers)
    gains = [_gain_over_common_baseline(choice) for choice in modes(answers)]
    question = answers[0].question
    is_told = bool(question.cache_label)
    is_other = question.dtype != question.baseline_dtype
    return is_none, question.of_packages, is_told, -max(gains, default=1.0), is_other


def _gain_over_common_baseline(choice: Choice) -> float:
    """The lower end of a mode's gain; in tf32 over the baseline in fp32, if it is linked to it."""
    chained = choice.chained
    return low(choice.gain) * (low(chained) / low(choice.speedup) if chained else 1.0)


def _series(
    answers: Sequence[Recommendation],
) -> Iterable[tuple[tuple[str | None, str], list[Recommendation]]]:
    """Yields groups of `answers` that differ in one size only, in the order of that size.

    The key of a group is the name of that size, such as `batch`, and the other sizes as JSON. The
    name is None if answers are not to be merged.
    """
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


def _precision(
    size: str | None, answers: Sequence[Recommendation], warm: Mapping[Question, Recommendation]
) -> Precision:
    question = answers[0].question
    cache = f", {question.cache_label}" if question.cache_label else ""
    if size is None:
        spans = [Span("", (answer,), clause([answer])) for answer in answers]
    else:
        spans = list(_spans(size, answers))
    ahead = ", ahead of time" if question.of_packages else ""
    return Precision(
        f"{phrases.precision(question.as_row())}{ahead}{cache}",
        tuple(spans),
        tuple(_remarks_on(size, answers, warm)),
    )


def _remarks_on(
    size: str | None, answers: Sequence[Recommendation], warm: Mapping[Question, Recommendation]
) -> Iterator[str]:
    sizes_of = grouped(
        (remark, str(json.loads(answer.question.shape).get(size, "")))
        for answer in answers
        for remark in dict.fromkeys(  # two rows may have the same remark
            (*remarks(answer), *_otherwise(answer, warm))
        )
    )
    for remark, sizes in sizes_of.items():
        whole = len(sizes) == len(answers)
        yield remark if whole else f"At {size} {phrases.listed(sizes)}: {remark}"


def _otherwise(answer: Recommendation, warm: Mapping[Question, Recommendation]) -> Iterator[str]:
    """Yields what is recommended with warm data, where `answer` is for cold ones and differs."""
    question = answer.question
    other = None if question.data is None else warm.get(replace(question, data=None))
    decided = (Outcome.MODE, Outcome.BASELINE)
    if other is None or answer.outcome not in decided or other.outcome not in decided:
        return
    names = [a.choice.mode if a.choice else a.question.baseline_mode for a in (answer, other)]
    if names[0] != names[1]:
        cold = phrases.data(question.as_row())
        yield f"With {cold} the answer is {names[0]}, with warm data {names[1]}."


def _spans(size: str, answers: Sequence[Recommendation]) -> Iterator[Span]:
    """Merges neighbours among `answers`, which are in the order of `size`, into spans.

    Neighbours are merged if they agree in outcome and mode, in whether results were checked and the
    baseline fits into the memory limit, in whether the study was too disturbed, and in the mode
    whose processes contradict each other.
    """

    def alike(placed: tuple[int, Recommendation]) -> tuple[object, ...]:
        answer = placed[1]
        choice = answer.choice if answer.outcome is Outcome.MODE else None
        doubted = bool(predicates.unchecked(choice.row) if choice else answer.baseline_unchecked)
        disputed = answer.disputed.run_id if answer.disputed else None
        return (
            answer.outcome, choice and choice.mode, answer.is_disturbed, doubted,
            answer.baseline_fits, disputed, answer.question.baseline_dtype, answer.link is None,
            answer.within is None, answer.tf32_off,
        )  # fmt: skip

    sizes = [json.loads(answer.question.shape)[size] for answer in answers]
    for _, run in groupby(zip(sizes, answers, strict=True), key=alike):
        members = list(run)
        least, most = members[0][0], members[-1][0]
        label = f"{size} {least}" if least == most else f"{size} {least} to {most}"
        if least == 1 and most > 1 and len({place for place, _ in members}) < len(set(sizes)):
            label = f"{size} ≤ {most}"
        same = tuple(answer for _, answer in members)
        yield Span(label, same, clause(same))

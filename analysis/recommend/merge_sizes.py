"""The sentences of recommendations; neighbouring sizes with equal answers share one."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import groupby
from typing import Any

from modescope.analysis.format import numbers, phrases
from modescope.analysis.recommend import types
from modescope.analysis.recommend.decide import KINDS
from modescope.analysis.recommend.types import (
    MODE,
    Choice,
    Question,
    Recommendation,
    high,
    hurdle,
    low,
)
from modescope.bench.records.cases import canonical_json
from modescope.bench.stats.estimates import MARGIN, Estimate


@dataclass(frozen=True)
class Span:
    """Neighbouring measured sizes with one answer."""

    label: str  # `batch ≤ 16`, `batch 32 to 256`; empty where only one shape was measured
    recommendations: tuple[Recommendation, ...]  # in the order of the size
    text: str  # the answer, in a clause


@dataclass(frozen=True)
class Advice:
    """All that is recommended for one work over one of its sizes."""

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


def _advice(
    size: str | None, others: str, answers: Sequence[Recommendation], placed: bool
) -> Advice:
    if size is None:
        spans = [Span("", (answer,), clause([answer])) for answer in answers]
    else:
        spans = list(_spans(size, answers))
    row = asdict(answers[0].question)
    cache = row["compile_cache"]
    subject = (
        phrases.work_at(row, others),
        row["dtype"],
        "" if cache == "cold" else f"{cache} compiler cache",
        phrases.place(row, letter=True) if placed else "",
    )
    texts = (f"{span.label}: {span.text}" if span.label else span.text for span in spans)
    text = f"{', '.join(filter(None, subject))}: {'; '.join(texts)}"
    return Advice(tuple(spans), text, tuple(_remarks_on(size, answers)))


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


def clause(same: Sequence[Recommendation]) -> str:
    """The answer that one or several recommendations share, as a clause without the work's name.

    `reduce-overhead, 3.1× [3.0, 3.2] over eager, pays after 4,100 calls, +180 MiB memory`. For
    several, figures are ranges.
    """
    return _CLAUSES[same[0].outcome](same)


def _mode(same: Sequence[Recommendation]) -> str:
    chosen, first = [one.choice for one in same if one.choice is not None], same[0]
    over = f"{_factors([one.speedup for one in chosen])} over {_baseline(first.question)}"
    if first.baseline_fits is False:
        over += ", which exceeds the memory limit"
    named = _named(chosen[0].mode, chosen[0].unchecked)
    return ", ".join((named, over, _pays(chosen, first.wishes.calls), _memory(chosen)))


def _keep_baseline(same: Sequence[Recommendation]) -> str:
    kinds, calls = {one.kind for answer in same for one in answer.refused}, same[0].wishes.calls
    if not kinds & {"slower", "no_difference", "unpaid"}:
        why = "every other usable mode exceeds the memory limit, or may exceed it"
    elif "unpaid" in kinds and calls is not None:
        why = f"no mode pays for its first call within {numbers.calls(calls)} calls"
    else:
        asked = same[0].question
        kind = "mode" if asked.dtype == asked.baseline_dtype else f"mode in {asked.dtype}"
        why = f"no {kind} is faster by more than {numbers.whole_percent(MARGIN)}"
    return f"{_kept(same[0])}: {why}"


def _undecided(same: Sequence[Recommendation]) -> str:
    calls = same[0].wishes.calls
    over = "" if calls is None else f" over {numbers.calls(calls)} calls"
    keep = (
        f"this data cannot show a difference{over} beyond ±{numbers.whole_percent(MARGIN)}, "
        f"so keep {_kept(same[0])}"
    )
    known = [one.detectable for one in same if one.detectable is not None]
    if len(known) < len(same) or calls is not None:
        return keep
    found = f"a true gain of {numbers.percent(max(known))} would have been detected"
    return f"{keep} ({found} in 80 % of such runs)"


def _between(same: Sequence[Recommendation]) -> str:
    disputed = same[0].disputed
    assert disputed is not None
    assert disputed.again is not None
    return (
        f"undecided between processes: {disputed.mode} measured {numbers.ratio(disputed.speedup)} "
        f"over {_baseline(same[0].question)} in one and {numbers.ratio(disputed.again)} in "
        "another; replicates=5 shows which is usual"
    )


def _nothing(same: Sequence[Recommendation]) -> str:
    text = "nothing can be recommended"
    kinds = Counter(one.kind for answer in same for one in answer.refused)
    if same[0].question.baseline_mode is None:
        return f"{text}: these runs were measured without a baseline"
    if not kinds:
        return f"{text}: only the baseline was measured"
    why = ", ".join(f"{count} {KINDS[kind]}" for kind, count in kinds.most_common())
    return f"{text} from {numbers.counted(kinds.total(), 'run', 'runs')}: {why}"


_CLAUSES: dict[str, Callable[[Sequence[Recommendation]], str]] = {
    types.MODE: _mode,
    types.BASELINE: _keep_baseline,
    types.UNDECIDED: _undecided,
    types.BETWEEN: _between,
    types.NOTHING: _nothing,
}


def remarks(answer: Recommendation) -> Iterator[str]:
    """Further sentences on ties, flags, exclusions and the baseline."""
    choice, outcome = answer.choice, answer.outcome
    if choice and answer.tied:
        ties = (
            f"{_named(t.row.mode, t.row.unchecked)} {numbers.ratio(t.row.speedup)} ({t.reason})"
            for t in answer.tied
        )
        yield f"Not distinguishable from {choice.mode} by the intervals: {', '.join(ties)}."
    if choice and choice.unchecked and outcome == MODE:
        yield f"The results of {choice.mode} were not checked: {choice.unchecked}."
    if choice and choice.flags:
        yield f"Timings of {choice.mode} are flagged: {', '.join(choice.flags)}."
    if choice and choice.pace is not None:
        yield (
            f"While {choice.mode} was timed, the machine took {1 / choice.pace:.2f} times its best "
            "known time for the same code."
        )
    if choice and choice.again and choice.processes == 1:
        yield f"A second process measured {choice.mode} at {numbers.ratio(choice.again)}."
    if choice and choice.accepted:
        error = numbers.scientific(choice.error)
        yield f"The error of {choice.mode} is {error}: {choice.accepted} (max_error)."
    refused = phrases.grouped((one.reason, one.mode) for one in answer.refused if one.reason)
    for reason, modes in refused.items():
        yield f"Not recommended: {phrases.listed(list(dict.fromkeys(modes)))}: {reason}."
    if outcome == types.NOTHING:
        return
    named, floor = _baseline(answer.question), answer.floor
    if answer.baseline_unchecked and outcome != MODE:
        yield f"The results of {named} were not checked: {answer.baseline_unchecked}."
    if answer.baseline_accepted:
        yield f"{named} exceeds the usual error limit: {answer.baseline_accepted} (max_error)."
    if answer.baseline_fits is None and outcome != MODE:
        yield f"Whether {named} fits into the memory limit is unknown."
    if floor is None:
        yield f"The noise floor is unknown: there is no usable run of {named} against itself."
    elif hurdle(floor) > 1 + MARGIN:
        yield f"{named} against itself measures {numbers.ratio(floor)}: less than that is noise."


def _baseline(question: Question) -> str:
    """`eager`, with its dtype where that differs from the question's."""
    mode, dtype = question.baseline_mode, question.baseline_dtype
    return f"{mode}" if dtype == question.dtype else f"{mode} {dtype}"


def _kept(answer: Recommendation) -> str:
    """The baseline where it is recommended itself."""
    return _named(_baseline(answer.question), answer.baseline_unchecked)


def _named(mode: str, unchecked: str) -> str:
    return f"{mode} (results not checked)" if unchecked else mode


def _factors(ratios: Sequence[Estimate]) -> str:
    """One ratio, or the range of several; the brackets hold all their intervals."""
    if len(ratios) == 1:
        return numbers.ratio(ratios[0])
    values = _range([one.value for one in ratios], lambda value: f"{value:.2f}")
    return f"{values}× [{min(map(low, ratios)):.2f}, {max(map(high, ratios)):.2f}]"


def _pays(chosen: Sequence[Choice], calls: float | None) -> str:
    if calls is not None:
        alone, whole = _factors([c.speedup for c in chosen]), _factors([c.gain for c in chosen])
        over = "the same" if alone == whole else whole
        first = _range([c.first_call_s for c in chosen], numbers.duration)
        return f"{over} over {numbers.calls(calls)} calls with a first call of {first}"
    after = [one.break_even_calls for one in chosen if one.break_even_calls is not None]
    if len(after) < len(chosen):
        return "break-even unknown"
    if max(after) in (0, math.inf):
        return "never pays" if max(after) else "pays at once"
    most = "at most " if len(set(after)) > 1 else ""
    return f"pays after {most}{numbers.calls(max(after))} calls"


def _memory(chosen: Sequence[Choice]) -> str:
    extra = [one.extra_bytes for one in chosen]
    if None in extra:
        return "memory unknown"
    return f"{_range(extra, _more)} memory" if any(extra) else "no extra memory"


def _more(size_bytes: float) -> str:
    sign = "+" if size_bytes > 0 else "−" if size_bytes < 0 else "±"
    return f"{sign}{numbers.size(abs(size_bytes))}"


def _range(values: Iterable[Any], name: Callable[[Any], str]) -> str:
    """`2.8 to 3.4`, from the least to the most; one value if both read the same."""
    ordered = sorted(values)
    return " to ".join(dict.fromkeys((name(ordered[0]), name(ordered[-1]))))

"""Writes recommendations as sentences, in which neighbouring sizes with one answer are merged."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import groupby
from typing import Any

from modescope.analysis.derive.flags import Figure
from modescope.analysis.derive.over_fp32 import COMMON, LINKED
from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.recommend import types
from modescope.analysis.recommend.types import (
    MODE,
    Choice,
    Question,
    Recommendation,
    high,
    hurdle,
    low,
    name_with_remark,
)
from modescope.analysis.rows import value_of
from modescope.bench.records.cases import canonical_json
from modescope.bench.stats.estimates import MARGIN, Estimate, hull, is_wide

DOUBTS = {
    "drift": "its speedup changed from the first rounds to the last",
    "autocorrelated": "its rounds depend on each other, so the interval should be wider",
    "bimodal": "its rounds have two levels, and the median represents one",
    "other_operators": "its calls run other operators than a call with new arguments",
    "work_grows": "its calls do more work the more were made before",
    "slow_pace": "the machine was slow",
}
"""What a flag says of a mode's speedup, in a clause; a flag not in here is shown by its name."""

TF32_OFF = " with tf32 off"
"""Follows the name of a baseline in fp32 on a GPU where nothing in tf32 was measured."""

LINK = (
    f"Chained: by way of {{mode}} {LINKED}, which is {{link}} as fast as {{mode}} {COMMON}; each "
    "of the two ratios was timed in rounds of its own process."
)
ROUNDS_FACTORS = (
    "With tf32, factors of matrix products are rounded to 10 bits, so results differ from fp32's."
)

DISTURBED = "too disturbed to answer: stop other programs, and measure again"


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
    """The recommendations for one model and phase at one precision.

    They are ordered and merged along one size, such as the batch; other sizes are fixed.
    """

    name: str  # `bf16`, `fp32, warm compiler cache`
    spans: tuple[Span, ...]
    remarks: tuple[str, ...]  # further sentences, with the sizes that they concern

    @property
    def recommendations(self) -> list[Recommendation]:
        """The recommendations at all sizes."""
        return [one for span in self.spans for one in span.recommendations]

    @property
    def text(self) -> str:
        """The answers at all sizes: `fp32: batch ≤ 16: no_grad, ...; batch 64: compile, ...`."""
        spans = (f"{span.label}: {span.text}" if span.label else span.text for span in self.spans)
        return f"{self.name}: {'; '.join(spans)}"

    @property
    def programs(self) -> dict[str, str]:
        """A dict from mode and dtype, such as `amp bf16`, to code that runs a recommended mode."""
        return {f"{one.mode} {one.dtype}": one.code for one in _modes(self.recommendations)}


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
        return [one for precision in self.precisions for one in precision.recommendations]

    @property
    def certainty(self) -> str:
        """A sentence on how sure the answers are; empty if there is no answer."""
        answers = [one for one in self.recommendations if one.outcome != types.NOTHING]
        return f"How sure: {'; '.join(_certainty(answers))}." if answers else ""


def fold(answers: Sequence[Recommendation]) -> tuple[Advice, ...]:
    """Groups `answers` into an Advice per model, phase and machine, and per fixed sizes.

    Within it, neighbouring sizes with the same answer are merged into a Span. They are merged along
    the only size that varies, or along the batch if several vary; all other sizes are fixed. A span
    names only measured sizes. `batch ≤ 16` is written if the span begins at batch 1, because there
    is no smaller batch. The precision whose mode gains most comes first; if no mode gains, the
    baseline's precision.
    """
    places = len({(a.question.environment, a.question.device, a.question.threads) for a in answers})
    by_contest = phrases.grouped((_contest(a.question), a) for a in answers)
    works = phrases.grouped(
        (_work(others, part[0].question, places > 1), _precision(size, part))
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


def _preference(precision: Precision) -> tuple[bool, bool, float, bool]:
    answers = precision.recommendations
    is_none = all(one.outcome == types.NOTHING for one in answers)
    gains = [_gain_over_common_baseline(one) for one in _modes(answers)]
    question = answers[0].question
    is_warm, is_other = question.compile_cache != "cold", question.dtype != question.baseline_dtype
    return is_none, is_warm, -max(gains, default=1.0), is_other


def _gain_over_common_baseline(one: Choice) -> float:
    """The lower end of a mode's gain; in tf32 over the baseline in fp32, if it is linked to it."""
    chained = one.chained
    return low(one.gain) * (low(chained) / low(one.speedup) if chained else 1.0)


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


def _precision(size: str | None, answers: Sequence[Recommendation]) -> Precision:
    question = answers[0].question
    cache = "" if question.compile_cache == "cold" else f", {question.compile_cache} compiler cache"
    if size is None:
        spans = [Span("", (answer,), clause([answer])) for answer in answers]
    else:
        spans = list(_spans(size, answers))
    return Precision(f"{question.dtype}{cache}", tuple(spans), tuple(_remarks_on(size, answers)))


def _remarks_on(size: str | None, answers: Sequence[Recommendation]) -> Iterator[str]:
    sizes_of = phrases.grouped(
        (remark, str(json.loads(answer.question.shape).get(size, "")))
        for answer in answers
        for remark in dict.fromkeys(remarks(answer))  # two rows may have the same remark
    )
    for remark, sizes in sizes_of.items():
        whole = len(sizes) == len(answers)
        yield remark if whole else f"At {size} {phrases.listed(sizes)}: {remark}"


def _spans(size: str, answers: Sequence[Recommendation]) -> Iterator[Span]:
    """Merges neighbours among `answers`, which are in the order of `size`, into spans.

    Neighbours are merged if they agree in outcome and mode, in whether results were checked and the
    baseline fits into the memory limit, in whether the study was too disturbed, and in the mode
    whose processes contradict each other.
    """

    def alike(placed: tuple[int, Recommendation]) -> tuple[object, ...]:
        one = placed[1]
        choice = one.choice if one.outcome == MODE else None
        doubted = bool(phrases.unchecked(choice.row) if choice else one.baseline_unchecked)
        disputed = one.disputed.run_id if one.disputed else None
        outcome = one.outcome, choice and choice.mode, one.is_disturbed
        related = one.question.baseline_dtype, one.link is None, one.within is None, one.tf32_off
        return *outcome, doubted, one.baseline_fits, disputed, *related

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
    """Writes the answer that all recommendations in `same` share, as a clause without a subject.

    An example is `reduce-overhead, 3.1× [3.0, 3.2] over eager, pays after 4,100 calls (first call
    7.20 s), error 2.1e-7 (eager 1.9e-7), +180 MiB memory`. Figures that differ are ranges.
    """
    return _CLAUSES[same[0].outcome](same)


def _mode(same: Sequence[Recommendation]) -> str:
    chosen, first = _modes(same), same[0]
    baseline = _baseline(first.question)
    over = f"{_factors([one.speedup for one in chosen])} over {baseline}"
    over += TF32_OFF if first.tf32_off else ""
    if chained := [one.chained for one in chosen if one.chained]:
        over += f", {_factors(chained)} chained over {first.question.baseline_mode} {COMMON}"
    if first.baseline_fits is False:
        over += ", which exceeds the memory limit"
    parts = (chosen[0].name, over, _pays(chosen, first.wishes.calls), _error(chosen, baseline))
    return ", ".join(filter(None, (*parts, _memory(chosen, baseline))))


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
    if any(one.kind == "noise" for answer in same for one in answer.refused):
        name = _baseline(same[0].question)
        return f"{_kept(same[0])}: no mode differs from {name} by more than {name} from itself"
    if same[0].is_disturbed:
        return f"{_kept(same[0])}: {DISTURBED}"
    margin = numbers.whole_percent(MARGIN)
    return f"{_kept(same[0])}: no mode is shown to be faster by more than {margin}{over}"


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
    kinds = Counter(one.kind.replace("_", " ") for answer in same for one in answer.refused)
    if same[0].question.baseline_mode is None:
        return f"{text}: these runs were measured without a baseline"
    if not kinds:
        return f"{text}: only the baseline was measured"
    why = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{text} from {numbers.counted(kinds.total(), 'run', 'runs')}: {why}"


_CLAUSES: dict[str, Callable[[Sequence[Recommendation]], str]] = {
    types.MODE: _mode,
    types.BASELINE: _keep_baseline,
    types.UNDECIDED: _undecided,
    types.BETWEEN: _between,
    types.NOTHING: _nothing,
}


def remarks(answer: Recommendation) -> Iterator[str]:
    """Yields further sentences on one recommendation: ties, unchecked results, and doubts."""
    choice, outcome = answer.choice, answer.outcome
    if choice and answer.tied:
        ties = (f"{t.row.name} {numbers.ratio(t.row.speedup)} ({t.reason})" for t in answer.tied)
        yield f"As fast by the intervals: {', '.join(ties)}."
    if choice and outcome == MODE and (why := phrases.unchecked(choice.row)):
        yield f"The results of {choice.mode} were not checked: {why}."
    if choice and (flags := phrases.flags(choice.row, Figure.SPEEDUP)):
        doubts = "; ".join(DOUBTS.get(flag, flag) for flag in flags)
        yield f"Less certain for {choice.mode}: {doubts}."
    if choice and (limited := phrases.power_limited(choice.row)):
        yield (
            f"{choice.mode}: {limited}, so its ratio holds for calls that alternate with those of "
            f"{_baseline(answer.question)}."
        )
    if answer.link:
        mode = answer.question.baseline_mode
        yield LINK.format(mode=mode, link=numbers.ratio(answer.link))
    if outcome == MODE and answer.question.dtype == LINKED:
        yield ROUNDS_FACTORS
    if answer.within:
        kept, text = _kept(answer.within), clause([answer.within])
        yield f"Against {kept} in {LINKED}: {text.removeprefix(f'{kept}: ')}."
    for one in answer.refused:
        if one.kind == "slow_host":
            yield f"{one.mode}: the host ran at {one.host_slower} times its usual time: undecided."
    if answer.baseline_unchecked and outcome not in (MODE, types.NOTHING):
        name = _baseline(answer.question)
        yield f"The results of {name} were not checked: {answer.baseline_unchecked}."


def _certainty(answers: Sequence[Recommendation]) -> Iterator[str]:
    """Yields clauses on what the answers rest on: processes, noise floor, detectable gain."""
    again = dict.fromkeys(
        f"a second process measured {one.mode} {one.dtype} at {numbers.ratio(one.again)}"
        for one in _modes(answers)
        if one.again and one.row["replicates"] == 1
    )
    spreads = [one.process_spread for one in answers if one.process_spread is not None]
    if spreads:
        most, fewest = numbers.percent(max(spreads)), min(one.processes for one in answers)
        yield f"speedups differ by up to {most} between processes ({fewest} or more per mode)"
    else:
        yield ", ".join(again) or (
            "one process per mode; others may differ by more than the intervals (replicates=5 "
            "measures that)"
        )
    baselines = [f"{a.question.baseline_mode} {a.question.baseline_dtype}" for a in answers]
    measured = zip(baselines, (one.floor for one in answers), strict=True)
    floors = phrases.grouped((name, floor) for name, floor in measured if floor)
    for name, known in floors.items():
        noisy = " (less than that is noise)" if any(hurdle(f) > 1 + MARGIN for f in known) else ""
        yield f"{name} against itself measures {_factors(list(dict.fromkeys(known)))}{noisy}"
    if not floors:
        yield f"{baselines[0]} was not measured against itself"
    detectable = [one.detectable for one in answers if one.detectable is not None]
    if any(one.is_disturbed for one in answers):
        yield DISTURBED
    elif detectable:
        yield f"gains below {numbers.percent(max(detectable))} may be missed"


def _modes(answers: Iterable[Recommendation]) -> list[Choice]:
    return [one.choice for one in answers if one.choice and one.outcome == MODE]


def _baseline(question: Question) -> str:
    mode, dtype = question.baseline_mode, question.baseline_dtype
    return f"{mode}" if dtype == question.dtype else f"{mode} {dtype}"


def _kept(answer: Recommendation) -> str:
    return name_with_remark(_baseline(answer.question), answer.baseline_unchecked)


def _factors(ratios: Sequence[Estimate]) -> str:
    if len(ratios) == 1:
        return numbers.ratio(ratios[0])
    if any(map(is_wide, ratios)):
        return numbers.ratio(hull(ratios))
    values = _range([one.value for one in ratios], lambda value: f"{value:.2f}")
    return f"{values}× [{min(map(low, ratios)):.2f}, {max(map(high, ratios)):.2f}]"


def _pays(chosen: Sequence[Choice], calls: float | None) -> str:
    first = _range(_known(chosen, "first_call_s"), numbers.duration)
    built_s = (phrases.ahead_s(choice.row) for choice in chosen)
    ahead = [seconds for seconds in built_s if seconds is not None]
    built = f"built ahead of time in {_range(ahead, numbers.duration)}, " if ahead else ""
    if calls is not None:
        alone, whole = _factors([c.speedup for c in chosen]), _factors([c.gain for c in chosen])
        over = "the same" if alone == whole else whole
        text = f"{over} over {numbers.calls(calls)} calls with a first call of {first}"
        return f"{text}, {built.rstrip(', ')}" if built else text
    after = _known(chosen, "break_even_calls")
    if len(after) < len(chosen):
        return "break-even unknown"
    if max(after) == math.inf:
        return "never pays" if min(after) == math.inf else "does not pay at every size"
    if max(after) == 0:
        return "pays at once"
    most = "at most " if len(set(after)) > 1 else ""
    return f"pays after {most}{numbers.calls(max(after))} calls ({built}first call {first})"


def _known(chosen: Sequence[Choice], column: str) -> list[float]:
    return [value for one in chosen if (value := value_of(one.row, column)) is not None]


def _error(chosen: Sequence[Choice], baseline: str) -> str:
    errors, theirs = _known(chosen, "error"), _known(chosen, "baseline_error")
    if not errors:
        return ""
    beside = f" ({baseline} {_range(theirs, numbers.scientific)})" if theirs else ""
    return f"relative error {_range(errors, numbers.scientific)}{beside}"


def _memory(chosen: Sequence[Choice], baseline: str) -> str:
    extra = [one.extra_bytes for one in chosen if one.extra_bytes is not None]
    if len(extra) == len(chosen):
        return f"{_range(extra, _more)} memory" if any(extra) else "no extra memory"
    peaks = _known(chosen, "peak_bytes")
    if len(peaks) < len(chosen):
        return "memory unknown"
    return f"peak {_range(peaks, numbers.size)} ({baseline}'s was not measured)"


def _more(size_bytes: float) -> str:
    sign = "+" if size_bytes > 0 else "−" if size_bytes < 0 else "±"
    return f"{sign}{numbers.size(abs(size_bytes))}"


def _range(values: Iterable[Any], name: Callable[[Any], str]) -> str:
    """Formats the range of `values`: `2.8 to 3.4`, or a single text if both ends read the same.

    `name` formats one value. Without values the text is `–`.
    """
    ordered = sorted(values)
    return " to ".join(dict.fromkeys((name(ordered[0]), name(ordered[-1])))) if ordered else "–"

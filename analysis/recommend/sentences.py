"""The sentences of a recommendation: its answer in a clause, remarks, how sure it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from modescope.analysis.format import numbers, phrases
from modescope.analysis.recommend import types
from modescope.analysis.recommend.types import (
    MODE,
    Choice,
    Question,
    Recommendation,
    high,
    hurdle,
    low,
)
from modescope.bench.stats.estimates import MARGIN, Estimate

DOUBTS = {
    "drift": "its speedup changed from the first rounds to the last",
    "autocorrelated": "its rounds depend on each other, so the interval should be wider",
    "bimodal": "its rounds have two levels, and the median represents one",
    "other_operators": "its calls run other operators than a call with new arguments",
    "slow_pace": "the machine was slow",
}
"""What a flag says of the speedup of a mode, in a clause; of another flag its name."""


def clause(same: Sequence[Recommendation]) -> str:
    """The answer that one or several recommendations share, as a clause without the work's name.

    `reduce-overhead, 3.1× [3.0, 3.2] over eager, pays after 4,100 calls (first call 7.20 s), error
    2.1e-7 (eager 1.9e-7), +180 MiB memory`. For several, figures are ranges.
    """
    return _CLAUSES[same[0].outcome](same)


def _mode(same: Sequence[Recommendation]) -> str:
    chosen, first = [one.choice for one in same if one.choice is not None], same[0]
    baseline = _baseline(first.question)
    over = f"{_factors([one.speedup for one in chosen])} over {baseline}"
    if first.baseline_fits is False:
        over += ", which exceeds the memory limit"
    named = _named(chosen[0].mode, chosen[0].unchecked)
    parts = (named, over, _pays(chosen, first.wishes.calls), _error(chosen, baseline))
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
        named = _baseline(same[0].question)
        return f"{_kept(same[0])}: no mode differs from {named} by more than {named} from itself"
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
    """Further sentences on ties, doubts and exclusions."""
    choice, outcome = answer.choice, answer.outcome
    if choice and answer.tied:
        ties = (
            f"{_named(t.row.mode, t.row.unchecked)} {numbers.ratio(t.row.speedup)} ({t.reason})"
            for t in answer.tied
        )
        yield f"As fast by the intervals: {', '.join(ties)}."
    if choice and choice.unchecked and outcome == MODE:
        yield f"The results of {choice.mode} were not checked: {choice.unchecked}."
    if choice and choice.flags:
        doubts = [DOUBTS.get(flag, flag) for flag in choice.flags]
        if choice.pace is not None:
            slow = f" ({1 / choice.pace:.2f} times its best known time for fixed code)"
            doubts = [f"{one}{slow}" if one == DOUBTS["slow_pace"] else one for one in doubts]
        yield f"Less certain for {choice.mode}: {'; '.join(doubts)}."
    refused = phrases.grouped((one.reason, one.mode) for one in answer.refused if one.reason)
    for reason, modes in refused.items():
        yield f"Not recommended: {phrases.listed(list(dict.fromkeys(modes)))}: {reason}."
    if answer.baseline_unchecked and outcome not in (MODE, types.NOTHING):
        named = _baseline(answer.question)
        yield f"The results of {named} were not checked: {answer.baseline_unchecked}."


def certainty(answers: Sequence[Recommendation]) -> Iterator[str]:
    """What the answers for one work rest on: processes, noise floor, least gain that is found."""
    chosen = [one.choice for one in answers if one.choice and one.outcome == MODE]
    again = dict.fromkeys(
        f"a second process measured {one.mode} {one.dtype} at {numbers.ratio(one.again)}"
        for one in chosen
        if one.again and one.processes == 1
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
    floors = phrases.grouped((_whole_baseline(a.question), a.floor) for a in answers if a.floor)
    for name, known in floors.items():
        noisy = " (less than that is noise)" if any(hurdle(f) > 1 + MARGIN for f in known) else ""
        yield f"{name} against itself measures {_factors(list(dict.fromkeys(known)))}{noisy}"
    if not floors:
        yield f"{_whole_baseline(answers[0].question)} was not measured against itself"
    detectable = [one.detectable for one in answers if one.detectable is not None]
    if detectable:
        yield f"gains below {numbers.percent(max(detectable))} may be missed"


def _baseline(question: Question) -> str:
    """`eager`, with its dtype where that differs from the question's."""
    mode, dtype = question.baseline_mode, question.baseline_dtype
    return f"{mode}" if dtype == question.dtype else f"{mode} {dtype}"


def _whole_baseline(question: Question) -> str:
    return f"{question.baseline_mode} {question.baseline_dtype}"


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
    first = _range([c.first_call_s for c in chosen if c.first_call_s], numbers.duration)
    if calls is not None:
        alone, whole = _factors([c.speedup for c in chosen]), _factors([c.gain for c in chosen])
        over = "the same" if alone == whole else whole
        return f"{over} over {numbers.calls(calls)} calls with a first call of {first}"
    after = [one.break_even_calls for one in chosen if one.break_even_calls is not None]
    if len(after) < len(chosen):
        return "break-even unknown"
    if max(after) in (0, math.inf):
        return "never pays" if max(after) else "pays at once"
    most = "at most " if len(set(after)) > 1 else ""
    return f"pays after {most}{numbers.calls(max(after))} calls (first call {first})"


def _error(chosen: Sequence[Choice], baseline: str) -> str:
    """`relative error 4.0e-3 (eager fp32 2.9e-7)`; empty where it was not checked."""
    errors = [one.error for one in chosen if one.error is not None]
    if not errors:
        return ""
    theirs = [one.baseline_error for one in chosen if one.baseline_error is not None]
    beside = f" ({baseline} {_range(theirs, numbers.scientific)})" if theirs else ""
    return f"relative error {_range(errors, numbers.scientific)}{beside}"


def _memory(chosen: Sequence[Choice], baseline: str) -> str:
    extra = [one.extra_bytes for one in chosen if one.extra_bytes is not None]
    if len(extra) == len(chosen):
        return f"{_range(extra, _more)} memory" if any(extra) else "no extra memory"
    peaks = [one.peak_bytes for one in chosen if one.peak_bytes is not None]
    if len(peaks) < len(chosen):
        return "memory unknown"
    return f"peak {_range(peaks, numbers.size)} ({baseline}'s was not measured)"


def _more(size_bytes: float) -> str:
    sign = "+" if size_bytes > 0 else "−" if size_bytes < 0 else "±"
    return f"{sign}{numbers.size(abs(size_bytes))}"


def _range(values: Iterable[Any], name: Callable[[Any], str]) -> str:
    """`2.8 to 3.4`, from the least to the most; one value if both read the same."""
    ordered = sorted(values)
    return " to ".join(dict.fromkeys((name(ordered[0]), name(ordered[-1])))) if ordered else "–"

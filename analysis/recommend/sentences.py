"""The sentences of a recommendation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from modescope.analysis.format import numbers, phrases
from modescope.analysis.recommend import types
from modescope.analysis.recommend.ends import high, hurdle, low
from modescope.analysis.recommend.exclusions import KINDS
from modescope.analysis.recommend.types import Choice, Question, Recommendation
from modescope.bench.stats.estimates import MARGIN, Estimate

# Exclusions that no table shows, because they follow from the user's constraints.
_BY_REQUEST = ("memory", "memory_unknown", "first_call_unknown", "unpaid", "noise")


def together(same: Sequence[Recommendation]) -> str:
    """The answer that one or several recommendations share, as a clause without the work's name.

    `reduce-overhead, 3.1× [3.0, 3.2] over eager, pays after 4,100 calls, +180 MiB memory`. For
    several, figures are ranges.
    """
    return _CLAUSES[same[0].outcome](same)


def remarks(answer: Recommendation) -> tuple[str, ...]:
    """Further sentences on ties, flags, exclusions and the baseline."""
    return tuple(_remarks(answer))


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
    first = same[0]
    calls = first.wishes.calls
    over = "" if calls is None else f" over {numbers.calls(calls)} calls"
    keep = (
        f"this data cannot show a difference{over} beyond ±{numbers.whole_percent(MARGIN)}, "
        f"so keep {_kept(first)}"
    )
    known = [one.detectable for one in same if one.detectable is not None]
    if len(known) < len(same) or calls is not None:
        return keep
    found = f"a true gain of {numbers.percent(max(known))} would have been detected"
    return f"{keep} ({found} in 80 % of such runs)"


def _between(same: Sequence[Recommendation]) -> str:
    answer = same[0]
    disputed = answer.disputed
    assert disputed is not None
    assert disputed.again is not None
    return (
        f"undecided between processes: {disputed.mode} measured {numbers.ratio(disputed.speedup)} "
        f"over {_baseline(answer.question)} in one and {numbers.ratio(disputed.again)} in another; "
        "replicates=5 shows which is usual"
    )


def _nothing(same: Sequence[Recommendation]) -> str:
    text = "nothing can be recommended"
    kinds = Counter(one.kind for answer in same for one in answer.refused)
    if same[0].question.baseline_mode is None:
        return f"{text}: these runs were measured without a baseline"
    if not kinds:
        return f"{text}: only the baseline was measured"
    runs = sum(kinds.values())
    why = ", ".join(f"{count} {KINDS[kind]}" for kind, count in kinds.most_common())
    return f"{text} from {numbers.counted(runs, 'run', 'runs')}: {why}"


def _baseline(question: Question) -> str:
    """`eager`, with its dtype where that differs from the question's."""
    mode, dtype = question.baseline_mode, question.baseline_dtype
    return f"{mode}" if dtype == question.dtype else f"{mode} {dtype}"


def _kept(answer: Recommendation) -> str:
    """The baseline where it is recommended itself."""
    return _named(_baseline(answer.question), answer.baseline_unchecked)


def _named(mode: str, unchecked: str) -> str:
    return f"{mode} (results not checked)" if unchecked else mode


_CLAUSES: dict[str, Callable[[Sequence[Recommendation]], str]] = {
    types.MODE: _mode,
    types.BASELINE: _keep_baseline,
    types.UNDECIDED: _undecided,
    types.BETWEEN: _between,
    types.NOTHING: _nothing,
}


def _remarks(answer: Recommendation) -> Iterator[str]:
    if answer.choice and answer.tied:
        ties = (
            f"{_named(t.row.mode, t.row.unchecked)} {numbers.ratio(t.row.speedup)} ({t.reason})"
            for t in answer.tied
        )
        chosen = answer.choice.mode
        yield f"Not distinguishable from {chosen} by the intervals: {', '.join(ties)}."
    if answer.choice and answer.choice.unchecked and answer.outcome == types.MODE:
        yield _not_checked(answer.choice.mode, answer.choice.unchecked)
    if answer.choice and answer.choice.flags:
        yield f"Timings of {answer.choice.mode} are flagged: {', '.join(answer.choice.flags)}."
    if answer.choice and answer.choice.pace is not None:
        yield (
            f"While {answer.choice.mode} was timed, the machine took "
            f"{1 / answer.choice.pace:.2f} times its best known time for the same code."
        )
    if answer.choice and answer.choice.again and answer.choice.processes == 1:
        yield (
            f"A second process measured {answer.choice.mode} at "
            f"{numbers.ratio(answer.choice.again)}."
        )
    if answer.choice and answer.choice.accepted:
        error = numbers.scientific(answer.choice.error)
        yield f"The error of {answer.choice.mode} is {error}: {answer.choice.accepted} (max_error)."
    refused = (one for one in answer.refused if one.kind in _BY_REQUEST)
    for reason, modes in phrases.grouped((one.reason, one.mode) for one in refused).items():
        yield f"Not recommended: {phrases.listed(list(dict.fromkeys(modes)))}: {reason}."
    yield from _about_baseline(answer)


def _about_baseline(answer: Recommendation) -> Iterator[str]:
    named, floor = _baseline(answer.question), answer.floor
    if answer.outcome == types.NOTHING:
        return
    if answer.baseline_unchecked and answer.outcome != types.MODE:
        yield _not_checked(named, answer.baseline_unchecked)
    if answer.baseline_accepted:
        yield f"{named} exceeds the usual error limit: {answer.baseline_accepted} (max_error)."
    if answer.baseline_fits is None and answer.outcome != types.MODE:
        yield f"Whether {named} fits into the memory limit is unknown."
    if floor is None:
        yield f"The noise floor is unknown: there is no usable run of {named} against itself."
    elif hurdle(floor) > 1 + MARGIN:
        yield f"{named} against itself measures {numbers.ratio(floor)}: less than that is noise."


def _not_checked(mode: str, why: str) -> str:
    return f"The results of {mode} were not checked: {why}."


def _factors(ratios: Sequence[Estimate]) -> str:
    """One ratio, or the range of several; the brackets hold all their intervals."""
    if len(ratios) == 1:
        return numbers.ratio(ratios[0])
    values = sorted(one.value for one in ratios)
    ends = min(map(low, ratios)), max(map(high, ratios))
    return f"{_range(values, lambda v: f'{v:.2f}')}× [{ends[0]:.2f}, {ends[1]:.2f}]"


def _pays(chosen: Sequence[Choice], calls: float | None) -> str:
    if calls is not None:
        alone, whole = (
            _factors([getattr(c, name) for c in chosen]) for name in ("speedup", "gain")
        )
        over = "the same" if alone == whole else whole
        first = _range([c.first_call_s for c in chosen], numbers.duration)
        return f"{over} over {numbers.calls(calls)} calls with a first call of {first}"
    after = [one.break_even_calls for one in chosen if one.break_even_calls is not None]
    if len(after) < len(chosen):
        return "break-even unknown"
    if max(after) in (0, math.inf):
        return "never pays" if max(after) else "pays at once"
    return (
        f"pays after {'at most ' if len(set(after)) > 1 else ''}{numbers.calls(max(after))} calls"
    )


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

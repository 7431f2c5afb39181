"""A recommendation in plain text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from analysis import numbers, words
from analysis.recommending.ends import high, hurdle, low
from analysis.recommending.records import (
    BASELINE,
    MODE,
    NOTHING,
    UNDECIDED,
    Choice,
    Question,
    Recommendation,
)
from analysis.recommending.refusals import KINDS
from bench.stats import MARGIN, Estimate

# Why a mode was refused that a table does not show: it follows from what the reader asked for.
_ASKED_FOR = ("memory", "memory_unknown", "first_call_unknown", "unpaid", "noise")


def together(same: Sequence[Recommendation]) -> str:
    """The answer that one or several recommendations share, in a clause that names no work.

    `reduce-overhead, 3.1× [3.0, 3.2] over eager, pays after 4,100 calls, +180 MiB memory`. Of
    several, the ends of ranges are told.
    """
    return _TOLD[same[0].outcome](same)


def remarks(answer: Recommendation) -> tuple[str, ...]:
    """What a reader has to know beside the answer, a sentence each."""
    return tuple(_remarks(answer))


def _mode(same: Sequence[Recommendation]) -> str:
    chosen, first = [one.choice for one in same if one.choice is not None], same[0]
    over = f"{_factors([one.speedup for one in chosen])} over {_baseline(first.question)}"
    if first.baseline_fits is False:
        over += ", which needs more memory than allowed"
    return ", ".join((chosen[0].mode, over, _pays(chosen, first.wishes.calls), _memory(chosen)))


def _keep_baseline(same: Sequence[Recommendation]) -> str:
    kinds, calls = {one.kind for answer in same for one in answer.refused}, same[0].wishes.calls
    if not kinds & {"slower", "no_difference", "unpaid"}:
        why = "every mode that counts needs more memory than allowed, or may need it"
    elif "unpaid" in kinds and calls is not None:
        why = f"no mode pays for its first call within {numbers.calls(calls)} calls"
    else:
        why = f"no mode is faster by more than {numbers.whole_percent(MARGIN)}"
    return f"{_baseline(same[0].question)}: {why}"


def _undecided(same: Sequence[Recommendation]) -> str:
    first = same[0]
    calls = first.wishes.calls
    over = "" if calls is None else f" over {numbers.calls(calls)} calls"
    keep = (
        f"no difference{over} that this data can show beyond "
        f"±{numbers.whole_percent(MARGIN)}, so {_baseline(first.question)} will do"
    )
    known = [one.detectable for one in same if one.detectable is not None]
    if len(known) < len(same) or calls is not None:
        return keep
    return f"{keep} (a true gain of {numbers.percent(max(known))} would have shown)"


def _nothing(same: Sequence[Recommendation]) -> str:
    told = "nothing can be recommended"
    kinds = Counter(one.kind for answer in same for one in answer.refused)
    if same[0].question.baseline_mode is None:
        return f"{told}: no baseline was timed beside these runs"
    if not kinds:
        return f"{told}: only the baseline was measured"
    runs = sum(kinds.values())
    why = ", ".join(f"{count} {KINDS[kind]}" for kind, count in kinds.most_common())
    return f"{told} of {numbers.counted(runs, 'run', 'runs')}: {why}"


def _baseline(question: Question) -> str:
    """`eager`, with its dtype where that is another than the question's."""
    mode, dtype = question.baseline_mode, question.baseline_dtype
    return f"{mode}" if dtype == question.dtype else f"{mode} {dtype}"


_TOLD: dict[str, Callable[[Sequence[Recommendation]], str]] = {
    MODE: _mode,
    BASELINE: _keep_baseline,
    UNDECIDED: _undecided,
    NOTHING: _nothing,
}


def _remarks(answer: Recommendation) -> Iterator[str]:
    if answer.tied:
        told = (f"{t.row.mode} {numbers.ratio(t.row.speedup)} ({t.reason})" for t in answer.tied)
        yield f"Not told apart from it: {', '.join(told)}."
    if answer.choice and answer.choice.flags:
        yield f"timings of {answer.choice.mode} are flagged: {', '.join(answer.choice.flags)}."
    if answer.choice and answer.choice.accepted:
        error = numbers.scientific(answer.choice.error)
        yield f"The error of {answer.choice.mode} is {error}: {answer.choice.accepted} (max_error)."
    reasons: dict[str, list[str]] = {}
    for refused in answer.refused:
        if refused.kind in _ASKED_FOR:
            reasons.setdefault(refused.reason, []).append(refused.mode)
    for reason, modes in reasons.items():
        yield f"Not {words.listed(list(dict.fromkeys(modes)))}: {reason}."
    yield from _about_baseline(answer)


def _about_baseline(answer: Recommendation) -> Iterator[str]:
    named, floor = _baseline(answer.question), answer.floor
    if answer.outcome == NOTHING:
        return
    if answer.baseline_accepted:
        yield f"{named} is beyond its usual error: {answer.baseline_accepted} (max_error)."
    if answer.baseline_fits is None and answer.outcome != MODE:
        yield f"Whether {named} fits into the memory allowed is not known."
    if floor is None:
        yield f"The noise floor is unknown: no run of {named} against itself counts."
    elif hurdle(floor) > 1 + MARGIN:
        yield f"{named} against itself reads {numbers.ratio(floor)}: less than that means nothing."


def _factors(ratios: Sequence[Estimate]) -> str:
    """Each interval lies within the brackets."""
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
        over = "as much" if alone == whole else whole
        first = _range([c.first_call_s for c in chosen], numbers.duration)
        return f"{over} over {numbers.calls(calls)} calls with a first call of {first}"
    after = [one.break_even_calls for one in chosen if one.break_even_calls is not None]
    if len(after) < len(chosen):
        return "when it pays is unknown"
    if max(after) in (0, math.inf):
        return "never pays" if max(after) else "pays at once"
    return (
        f"pays after {'at most ' if len(set(after)) > 1 else ''}{numbers.calls(max(after))} calls"
    )


def _memory(chosen: Sequence[Choice]) -> str:
    extra = [one.extra_bytes for one in chosen]
    if None in extra:
        return "memory unknown"
    return f"{_range(extra, _more)} memory" if any(extra) else "no more memory"


def _more(size_bytes: float) -> str:
    sign = "+" if size_bytes > 0 else "−" if size_bytes < 0 else "±"
    return f"{sign}{numbers.size(abs(size_bytes))}"


def _range(values: Iterable[Any], name: Callable[[Any], str]) -> str:
    """`2.8 to 3.4`, from the least to the most; one name where both have the same."""
    ordered = sorted(values)
    return " to ".join(dict.fromkeys((name(ordered[0]), name(ordered[-1]))))

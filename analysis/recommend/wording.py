"""Words of a recommendation: the answer as a clause, remarks on it, and how sure it is."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from modescope.analysis.derive.flags import Doubted
from modescope.analysis.derive.over_fp32 import COMMON, LINKED
from modescope.analysis.estimates import high, low
from modescope.analysis.format import numbers, phrases
from modescope.analysis.recommend import starting
from modescope.analysis.recommend.ties import since
from modescope.analysis.recommend.types import (
    Choice,
    Outcome,
    Question,
    Recommendation,
    RefusalKind,
    Tie,
    hurdle,
    name_with_remark,
)
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import grouped, required, value_of
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


FROZEN = (
    "{mode} keeps the weights as they were in its first call: a later change of them has no "
    "effect, or on a part of the result only{held}."
)

HELD_AGAIN = 2.0
"""Resident memory of this many times the weights shows that frozen code holds them again."""


DISTURBED = "too disturbed to answer: stop other programs, and measure again"

DISTURBED_BESIDE = (
    "too disturbed to tell what modes that compile gain: stop other programs, and measure again"
)


def clause(same: Sequence[Recommendation]) -> str:
    """Writes the answer that all recommendations in `same` share, as a clause without a subject.

    An example is `reduce-overhead, 3.1× [3.0, 3.2] over eager, pays after 4,100 calls (first call
    7.20 s), error 2.1e-7 (eager 1.9e-7), +180 MiB memory`. Figures that differ are ranges.
    """
    return _CLAUSES[same[0].outcome](same)


def _mode(same: Sequence[Recommendation]) -> str:
    chosen, first = modes(same), same[0]
    baseline, starts = _baseline(first.question), first.wishes.starts
    ratios = [each for one in chosen for each in ([one.gain] if starts else one.speedups)]
    over = f"{_factors(ratios)} over {baseline}"
    over += TF32_OFF if first.tf32_off else ""
    if starts:
        over += f"{starting.span(first.wishes)} ({_started(chosen, baseline)})"
    elif chained := [choice.chained for choice in chosen if choice.chained]:
        over += f", {_factors(chained)} chained over {first.question.baseline_mode} {COMMON}"
    if first.baseline_fits is False:
        over += ", which exceeds the memory limit"
    pays = "" if starts else _pays(chosen, first.wishes.calls)
    parts = (chosen[0].name, over, pays, _error(chosen, baseline), _agreement(chosen))
    return ", ".join(filter(None, (*parts, _memory(chosen, baseline))))


def _keep_baseline(same: Sequence[Recommendation]) -> str:
    kinds = {refusal.kind for answer in same for refusal in answer.refused}
    wishes, asked = same[0].wishes, same[0].question
    mode, cost = ("package", "build") if asked.of_packages else ("mode", "first call")
    if not kinds & {RefusalKind.SLOWER, RefusalKind.NO_DIFFERENCE, RefusalKind.UNPAID}:
        why = "every other usable mode exceeds the memory limit, or may exceed it"
    elif wishes.starts is not None:
        why = f"nothing is faster{starting.span(wishes)}"
    elif RefusalKind.UNPAID in kinds and wishes.calls is not None:
        why = f"no {mode} pays for its {cost} within {numbers.calls(wishes.calls)} calls"
    else:
        other = asked.quantize or asked.dtype != asked.baseline_dtype
        kind = f"{mode} in {phrases.precision(asked.as_row())}" if other else mode
        why = f"no {kind} is faster by more than {numbers.whole_percent(MARGIN)}"
    return f"{_kept(same[0])}: {why}"


def _undecided(same: Sequence[Recommendation]) -> str:
    over = starting.span(same[0].wishes)
    if any(refusal.kind is RefusalKind.NOISE for answer in same for refusal in answer.refused):
        name = _baseline(same[0].question)
        return f"{_kept(same[0])}: no mode differs from {name} by more than {name} from itself"
    if same[0].is_disturbed:
        return f"undecided: {DISTURBED}"
    margin = numbers.whole_percent(MARGIN)
    return f"{_kept(same[0])}: no mode is shown to be faster by more than {margin}{over}"


def _between(same: Sequence[Recommendation]) -> str:
    disputed = same[0].disputed
    assert disputed is not None
    return f"undecided {between(disputed.row, _baseline(same[0].question))}"


def between(row: Row, baseline: str) -> str:
    """Says what two processes of a row's mode, which contradict each other, measured."""
    first, again = map(
        numbers.ratio, (required(row["speedup"]), required(row["confirming_speedup"]))
    )
    return (
        f"between processes: {phrases.mode(row)} measured {first} over {baseline} in one and "
        f"{again} in another; replicates=5 shows which is usual"
    )


def _nothing(same: Sequence[Recommendation]) -> str:
    text = "nothing can be recommended"
    kinds = Counter(refusal.kind.replace("_", " ") for answer in same for refusal in answer.refused)
    if same[0].question.baseline_mode is None:
        return f"{text}: these runs were measured without a baseline"
    if not kinds:
        return f"{text}: of these runs every one is of the baseline"
    why = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    remedy = "; starts=5 measures them" if "start unknown" in kinds else ""
    return f"{text} from {numbers.counted(kinds.total(), 'run', 'runs')}: {why}{remedy}"


_CLAUSES: dict[Outcome, Callable[[Sequence[Recommendation]], str]] = {
    Outcome.MODE: _mode,
    Outcome.BASELINE: _keep_baseline,
    Outcome.UNDECIDED: _undecided,
    Outcome.BETWEEN: _between,
    Outcome.NOTHING: _nothing,
}


def remarks(answer: Recommendation) -> Iterator[str]:
    """Yields further sentences on one recommendation: ties, unchecked results, and doubts."""
    choice, outcome = answer.choice, answer.outcome
    if choice:
        yield from _preferred(choice, answer.tied)
    if choice and outcome is Outcome.MODE and (why := predicates.unchecked(choice.row)):
        yield f"The results of {choice.mode} were not checked: {why}."
    if choice and outcome is Outcome.MODE and choice.row["frozen_weights"]:
        yield FROZEN.format(mode=choice.mode, held=_held_again(choice.row))
    if choice and (flags := predicates.flags(choice.row, Doubted.SPEEDUP)):
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
    if outcome is Outcome.MODE and answer.question.dtype == LINKED:
        yield ROUNDS_FACTORS
    if answer.within:
        kept, text = _kept(answer.within), clause([answer.within])
        yield f"Against {kept} in {LINKED}: {text.removeprefix(f'{kept}: ')}."
    for refusal in answer.refused:
        if refusal.kind is RefusalKind.SLOW_HOST:
            slower = f"{refusal.host_slower}× its usual time"
            yield f"{refusal.mode}: the host ran at {slower}: undecided."
    if answer.baseline_unchecked and outcome not in (Outcome.MODE, Outcome.NOTHING):
        name = _baseline(answer.question)
        yield f"The results of {name} were not checked: {answer.baseline_unchecked}."


def _preferred(choice: Choice, tied: Sequence[Tie]) -> Iterator[str]:
    """Yields per reason which modes cannot be told apart from `choice`, and why that is used."""
    ties = grouped((since(choice, tie), tie.row) for tie in tied)
    for reason, others in ties.items():
        named = phrases.listed([f"{t.name} {numbers.ratio(t.speedup)}" for t in others])
        yield f"{named} cannot be told apart; {choice.mode} is preferred, since {reason}."


def _held_again(row: Row) -> str:
    resident, weights = row["resident_bytes"], row["weights_bytes"]
    if resident is None or not weights or resident < HELD_AGAIN * weights:
        return ""
    return (
        f". It holds them again: {numbers.size(resident)} are held between calls, for weights of "
        f"{numbers.size(weights)}"
    )


def certainty(answers: Sequence[Recommendation]) -> Iterator[str]:
    """Yields clauses on what the answers rest on: processes, noise floor, detectable gain."""
    single = " a call" if answers[0].wishes.starts else ""  # what is told is a total beside that
    size = _size_of(answers)
    again = dict.fromkeys(
        f"{_rung(answer, choice)}{size(answer)} at {numbers.ratio(choice.again)}"
        for answer in answers
        for choice in modes([answer])
        if choice.again and choice.row["replicates"] == 1
    )
    spreads = [answer.process_spread for answer in answers if answer.process_spread is not None]
    if spreads:
        most, fewest = numbers.percent(max(spreads)), min(answer.processes for answer in answers)
        yield f"speedups differ by up to {most} between processes ({fewest} or more per mode)"
    else:
        yield (
            f"a second process measured{single} {phrases.listed([*again])}"
            if again
            else "one process per mode; another may differ by more than the intervals "
            "(replicates=5 measures by how much)"
        )
    baselines = [f"{a.question.baseline_mode} {a.question.baseline_dtype}" for a in answers]
    measured = zip(baselines, (answer.floor for answer in answers), strict=True)
    floors = grouped((name, floor) for name, floor in measured if floor)
    for name, known in floors.items():
        noisy = " (less than that is noise)" if any(hurdle(f) > 1 + MARGIN for f in known) else ""
        yield f"{name} against itself measures {_factors(list(dict.fromkeys(known)))}{noisy}"
    if not floors:
        yield f"{baselines[0]} was not measured against itself"
    if disturbed := [answer for answer in answers if answer.is_disturbed]:
        has_modes = all(answer.outcome is Outcome.MODE for answer in disturbed)
        yield DISTURBED_BESIDE if has_modes else DISTURBED
    elif missed := _missed(answers):
        yield f"gains{single} below {missed} may be missed"


def _missed(answers: Iterable[Recommendation]) -> str:
    """Says below how much a gain may be missed, at each precision: `1.2 % (fp32) and 15 % (bf16)`.

    Of a single precision it is `1.2 %`; empty if nothing is known.
    """
    known = ((answer.question.as_row(), answer.detectable) for answer in answers)
    found = grouped((phrases.precision(row), gain) for row, gain in known if gain is not None)
    least = {name: numbers.percent(max(gains)) for name, gains in found.items()}
    if len(set(least.values())) < 2:
        return next(iter(least.values()), "")
    return phrases.listed([f"{percent} ({name})" for name, percent in least.items()])


def _size_of(answers: Sequence[Recommendation]) -> Callable[[Recommendation], str]:
    """Returns a function that names the sizes of an answer in which `answers` differ."""
    shapes = [json.loads(answer.question.shape) for answer in answers]
    names = dict.fromkeys(name for shape in shapes for name in shape)
    differing = [name for name in names if len({shape.get(name) for shape in shapes}) > 1]

    def size(answer: Recommendation) -> str:
        shape = json.loads(answer.question.shape)
        named = canonical_json({name: shape[name] for name in differing if name in shape})
        return f" ({phrases.sizes(named)})" if differing else ""

    return size


def _rung(answer: Recommendation, choice: Choice) -> str:
    """Names a mode, its precision and the state of the compiler's cache that the answer is for."""
    cache = answer.question.cache_label if predicates.has_cache(choice.row) else ""
    return " ".join(filter(None, (f"{choice.mode} {choice.dtype}", cache and f"({cache})")))


def modes(answers: Iterable[Recommendation]) -> list[Choice]:
    """Returns the choices of those answers that recommend a mode."""
    return [answer.choice for answer in answers if answer.choice and answer.outcome is Outcome.MODE]


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
    values = _range([ratio.value for ratio in ratios], lambda value: f"{value:.2f}")
    return f"{values}× [{min(map(low, ratios)):.2f}, {max(map(high, ratios)):.2f}]"


def _pays(chosen: Sequence[Choice], calls: float | None) -> str:
    first = _range(_known(chosen, "first_call_s"), numbers.duration)
    built_s = (phrases.ahead_s(choice.row) for choice in chosen)
    ahead = [seconds for seconds in built_s if seconds is not None]
    sizes = _known(chosen, "package_bytes")
    package = f", package of {_range(sizes, numbers.size)}" if sizes else ""
    built = f"built ahead of time in {_range(ahead, numbers.duration)}{package}, " if ahead else ""
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


def _started(chosen: Sequence[Choice], baseline: str) -> str:
    """Says what the processes take: `filled once in 14 s, 4.4 s to the first result, eager 1.2 s`.

    All of `chosen` start with the same state of the compiler's caches.
    """
    made = "built" if predicates.is_prebuilt(chosen[0].row) else "filled"
    fills = _known(chosen, "fill_s")
    before = f"{made} once in {_range(fills, numbers.duration)}, " if fills else ""
    mine = _range([required(c.row["start_s"]).value for c in chosen], numbers.duration)
    theirs = _range([starting.baseline_start_s(c.row) for c in chosen], numbers.duration)
    return f"{before}{mine} to the first result, {baseline} {theirs}"


def _known(chosen: Sequence[Choice], column: str) -> list[float]:
    return [value for choice in chosen if (value := value_of(choice.row, column)) is not None]


def _error(chosen: Sequence[Choice], baseline: str) -> str:
    errors, theirs = _known(chosen, "error"), _known(chosen, "baseline_error")
    if not errors:
        return ""
    beside = f" ({baseline} {_range(theirs, numbers.scientific)})" if theirs else ""
    return f"relative error {_range(errors, numbers.scientific)}{beside}"


def _agreement(chosen: Sequence[Choice]) -> str:
    """Says what fewer bits change, in what a user can judge; empty if weights have all bits."""
    cosines, same = _known(chosen, "output_cosine"), _known(chosen, "top1_agreement")
    shares = _known(chosen, "quantized_share")
    told = (
        f"cosine {_range(cosines, numbers.cosine)}" if cosines else "",
        f"top-1 agreement {_range(same, _at_least)} if its outputs are logits" if same else "",
        f"fewer bits in {_range(shares, _at_least)} of the parameters" if shares else "",
    )
    return ", ".join(filter(None, told))


def _at_least(share: float) -> str:
    return f"{math.floor(share * 100)} %"  # 100 % only if it is all


def _memory(chosen: Sequence[Choice], baseline: str) -> str:
    peaks = _known(chosen, "peak_bytes")
    if len(peaks) < len(chosen):
        return "memory unknown"
    theirs = [
        peak - choice.extra_bytes
        for choice, peak in zip(chosen, peaks, strict=True)
        if choice.extra_bytes is not None
    ]
    mine, other = _range(peaks, numbers.size), _range(theirs, numbers.size)
    number, _, unit = other.rpartition(" ")
    other = number if mine.endswith(f" {unit}") and " to " not in other else other
    return f"peak {mine} ({baseline} {other})" if theirs else f"peak {mine}"


def _range(values: Iterable[Any], name: Callable[[Any], str]) -> str:
    """Formats the range of `values`: `2.8 to 3.4`, or a single text if both ends read the same.

    `name` formats one value. Without values the text is `–`.
    """
    ordered = sorted(values)
    return " to ".join(dict.fromkeys((name(ordered[0]), name(ordered[-1])))) if ordered else "–"

"""One question's rows that count -> the one to use, those tied with it, and why not the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis import intervals, numbers, words
from analysis.flags import ON_SPEEDUP
from analysis.recommending.ends import high, hurdle, low
from analysis.recommending.gains import paired
from analysis.recommending.records import (
    BASELINE,
    MODE,
    NOTHING,
    UNDECIDED,
    Choice,
    Question,
    Recommendation,
    Refusal,
    Tie,
)
from analysis.recommending.refusals import fits_into, refusal
from analysis.recommending.ties import cheapest
from analysis.recommending.wishes import ANYTHING, Wishes
from analysis.words import Row
from bench.stats import MARGIN, Estimate

_OPEN = "no difference that this data can show"


@dataclass(frozen=True)
class Option:
    """A row that may be chosen, and what it gains over the baseline; both have an interval."""

    row: Row
    gain: Estimate


def chosen(
    question: Question,
    options: Sequence[Option],
    refused: Sequence[Refusal],
    baseline: Row | None,
    wishes: Wishes,
) -> Recommendation:
    """The answer, still without its words. `refused`: the rows that are no options."""
    floor, fits = _floor(baseline), fits_into(baseline, wishes.memory_limit_bytes)
    least_gain = 0.0 if fits is False else hurdle(floor)  # what cannot be run is no alternative
    winners = [option for option in options if low(option.gain) > least_gain]
    best = max(winners, key=lambda option: low(option.gain), default=None)
    close = [option for option in winners if best and not _is_less(option.gain, best.gain)]
    lost = [_lost(one, one in winners, least_gain, wishes) for one in options if one not in close]
    outcome = _outcome(winners, options, refused, fits)
    choice, tied = _preferred(close, baseline) if close else (None, ())
    if outcome == BASELINE and baseline is not None and floor is not None:
        choice = _choice(Option(baseline, floor), baseline)
    known = [option.row["mde"] for option in options if option.row["mde"] is not None]
    least = max(known, default=None) if len(known) == len(options) else None
    return Recommendation(
        question, wishes, outcome, choice, tied, (*lost, *refused), floor, least, fits, "", ()
    )


def _floor(baseline: Row | None) -> Estimate | None:
    """What the baseline reads against itself; None where no such run counts."""
    if baseline is None or not words.is_control(baseline) or refusal(baseline, ANYTHING):
        return None
    return paired(baseline)


def _is_less(one: Estimate, best: Estimate) -> bool:
    """Whether `one` is below `best` by more than MARGIN, even at the nearest ends.

    MARGIN also covers what the paired speedup of one mode differs by between processes.
    """
    apart = intervals.quotient(best, one)
    return apart is not None and low(apart) > 1 + MARGIN


def _preferred(close: Sequence[Option], baseline: Row | None) -> tuple[Choice, tuple[Tie, ...]]:
    by_id = {option.row["run_id"]: option for option in close}
    row, why = cheapest([option.row for option in close])
    tied = tuple(Tie(_choice(by_id[run_id], baseline), reason) for run_id, reason in why.items())
    return _choice(by_id[row["run_id"]], baseline), tied


def _choice(option: Option, baseline: Row | None) -> Choice:
    row = option.row
    peaks = (row["peak_bytes"], baseline["peak_bytes"] if baseline else None)
    return Choice(
        run_id=row["run_id"],
        mode=words.mode(row),
        dtype=row["dtype"],
        speedup=paired(row),
        gain=option.gain,
        latency=Estimate(row["latency_s"], row["latency_ci_low_s"], row["latency_ci_high_s"]),
        error=row["error"],
        first_call_s=row["first_call_s"],
        cache=row["compile_cache"],
        break_even_calls=row["break_even_calls"],
        peak_bytes=peaks[0],
        extra_bytes=None if None in peaks else peaks[0] - peaks[1],
        processes=row["replicates"],
        flags=tuple(flag for flag in words.flags(row) if flag in ON_SPEEDUP),
        accepted=words.accepted_knowingly(row),
    )


def _outcome(
    winners: Sequence[Option],
    options: Sequence[Option],
    refused: Sequence[Refusal],
    baseline_fits: bool | None,
) -> str:
    if winners:
        return MODE
    if baseline_fits is False:
        return NOTHING
    if options:
        equal = all(high(option.gain) <= 1 + MARGIN for option in options)
        return BASELINE if equal else UNDECIDED
    barred = any(one.kind in ("memory", "memory_unknown") for one in refused)
    return BASELINE if barred else NOTHING


def _lost(option: Option, won: bool, least_gain: float, wishes: Wishes) -> Refusal:
    """Why an option is neither chosen nor tied."""
    row, speedup = option.row, paired(option.row)
    reads = words.speedup(row)
    if won:
        kind, reason = "less", f"{_over_calls(option, wishes)} is less"
    elif high(speedup) < 1 / (1 + MARGIN):
        kind, reason = "slower", f"{reads}: it is slower, so it never pays"
    elif wishes.calls is not None and low(speedup) > least_gain:
        kind, reason = "unpaid", f"{_over_calls(option, wishes)}, {_pays_when(option)}"
    elif low(speedup) > 1 + MARGIN:
        kind, reason = "noise", f"{reads}, and the baseline differs as much from itself"
    else:
        equal = low(speedup) >= 1 / (1 + MARGIN) and high(speedup) <= 1 + MARGIN
        told = f"within ±{numbers.whole_percent(MARGIN)}" if equal else _OPEN
        kind, reason = "no_difference", f"{reads}: {told}"
    return Refusal(row["run_id"], words.mode(row), kind, reason)


def _over_calls(option: Option, wishes: Wishes) -> str:
    """`1.30× [1.29, 1.31]`, over the calls that were asked for if any were."""
    if wishes.calls is None:
        return numbers.ratio(option.gain)
    over = f"{numbers.ratio(option.gain)} over {numbers.calls(wishes.calls)} calls"
    return f"{over} with its first call of {words.first_call(option.row)}"


def _pays_when(option: Option) -> str:
    if high(option.gain) < 1 + MARGIN:
        return f"so it does not pay; it would after {words.break_even(option.row)} calls"
    return "so whether it pays cannot be said"

"""Chooses among one question's usable rows: the row to use, its ties, why the others lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from modescope.analysis.derive.flags import Figure
from modescope.analysis.format import cells, numbers, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.recommend import types
from modescope.analysis.recommend.code import code
from modescope.analysis.recommend.constraints import ANYTHING, Wishes
from modescope.analysis.recommend.ends import high, hurdle, low
from modescope.analysis.recommend.exclusions import fits_into, refusal
from modescope.analysis.recommend.ties import cheapest
from modescope.analysis.recommend.types import Choice, Question, Recommendation, Refusal, Tie
from modescope.bench.stats import intervals
from modescope.bench.stats.estimates import MARGIN, Estimate

_OPEN = "this data cannot show a difference"

NEAR = 0.03
"""Modes that are equally fast differ by less, whatever their intervals: in a disturbed study,
compile at 1.75× [1.23, 2.29] is not as fast as inference_mode at 1.19× [1.16, 1.24]."""


@dataclass(frozen=True)
class Option:
    """A row that may be chosen, and its gain over the baseline; both have an interval."""

    row: Row
    gain: Estimate


def chosen(
    question: Question,
    options: Sequence[Option],
    refused: Sequence[Refusal],
    baseline: Row | None,
    wishes: Wishes,
) -> Recommendation:
    """The answer without its sentences. `refused`: the rows that cannot be chosen."""
    floor, fits = _floor(baseline), fits_into(baseline, wishes.memory_limit_bytes)
    least_gain = 0.0 if fits is False else hurdle(floor)  # a baseline that does not fit cannot win
    winners = [option for option in options if low(option.gain) > least_gain]
    best = max(winners, key=lambda option: low(option.gain), default=None)
    close = [option for option in winners if best and _is_equal(option.gain, best.gain)]
    others = [one for one in options if one not in close and high(one.gain) >= 1]
    rival = max(others, key=lambda option: low(option.gain), default=None)
    lost = [
        _lost(one, best if one in winners else None, least_gain, wishes)
        for one in options
        if one not in close
    ]
    outcome = _outcome(winners, options, refused, fits)
    choice, tied = _preferred(close, baseline) if close else (None, ())
    if outcome == types.BASELINE and baseline is not None and floor is not None:
        choice = _choice(Option(baseline, floor), baseline)
    no_losses = [option for option in options if high(option.gain) >= 1 / (1 + MARGIN)]
    known = [option.row["mde"] for option in no_losses if option.row["mde"] is not None]
    least = max(known, default=None) if len(known) == len(no_losses) else None
    return Recommendation(
        question, wishes, outcome, choice, tied, (*lost, *refused), floor, least, fits, "", (),
        rival=_choice(rival, baseline) if rival else None,
    )  # fmt: skip


def _floor(baseline: Row | None) -> Estimate | None:
    """The baseline's speedup over itself, the noise floor; None without a usable run of it."""
    if baseline is None or not phrases.is_control(baseline) or refusal(baseline, ANYTHING):
        return None
    return intervals.of_columns(baseline, "speedup")


def _is_equal(one: Estimate, best: Estimate) -> bool:
    """Whether `one` is not below `best` by more than MARGIN, and near it.

    MARGIN also covers most differences of one mode's paired speedup between processes.
    """
    return not _is_less(one, best) and abs(math.log(one.value / best.value)) < math.log1p(NEAR)


def _is_less(one: Estimate, best: Estimate) -> bool:
    """Whether `one` is below `best` by more than MARGIN, even at the nearest interval ends."""
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
        mode=phrases.mode(row),
        dtype=row["dtype"],
        speedup=intervals.of_columns(row, "speedup"),
        gain=option.gain,
        latency=intervals.of_clock(row, "latency_paired"),
        error=row["error"],
        first_call_s=row["first_call_s"],
        cache=row["compile_cache"],
        break_even_calls=row["break_even_calls"],
        peak_bytes=peaks[0],
        extra_bytes=None if None in peaks else peaks[0] - peaks[1],
        processes=row["replicates"],
        flags=tuple(phrases.flags(row, Figure.SPEEDUP)),
        code=code(row),
        accepted=phrases.accepted_knowingly(row),
        unchecked=phrases.unchecked(row),
        compiles=bool(row["compile_mode"] != "none" or row["graph"]),
        again=_again(row),
        pace=row["pace"] if "slow_pace" in phrases.flags(row) else None,
    )


def _again(row: Row) -> Estimate | None:
    """The speedup in a confirming process that ended ok."""
    is_known = row["confirming_speedup_ci_low"] is not None
    return intervals.of_columns(row, "confirming_speedup") if is_known else None


def _outcome(
    winners: Sequence[Option],
    options: Sequence[Option],
    refused: Sequence[Refusal],
    baseline_fits: bool | None,
) -> str:
    if winners:
        return types.MODE
    if baseline_fits is False:
        return types.NOTHING
    if options:
        equal = all(high(option.gain) <= 1 + MARGIN for option in options)
        return types.BASELINE if equal else types.UNDECIDED
    barred = any(one.kind in ("memory", "memory_unknown") for one in refused)
    return types.BASELINE if barred else types.NOTHING


def _lost(option: Option, best: Option | None, least_gain: float, wishes: Wishes) -> Refusal:
    """Why an option is neither chosen nor tied. `best`: of the winners, if it is one."""
    row, speedup = option.row, intervals.of_columns(option.row, "speedup")
    reads = cells.speedup(row)
    if best and _is_less(option.gain, best.gain):
        kind, reason = "less", f"{_over_calls(option, wishes)}: less than the recommended mode"
    elif best:
        kind, reason = "open", f"{_over_calls(option, wishes)}: too wide to tell from the best"
    elif high(speedup) < 1 / (1 + MARGIN):
        kind, reason = "slower", f"{reads}: slower than the baseline"
    elif wishes.calls is not None and low(speedup) > least_gain:
        kind, reason = "unpaid", f"{_over_calls(option, wishes)}, {_pays_when(option)}"
    elif low(speedup) > 1 + MARGIN:
        kind, reason = "noise", f"{reads}: not shown to be above the noise floor of the baseline"
    else:
        equal = low(speedup) >= 1 / (1 + MARGIN) and high(speedup) <= 1 + MARGIN
        why = f"within ±{numbers.whole_percent(MARGIN)}" if equal else _OPEN
        kind, reason = "no_difference", f"{reads}: {why}"
    return Refusal(row["run_id"], phrases.mode(row), kind, reason)


def _over_calls(option: Option, wishes: Wishes) -> str:
    """`1.30× [1.29, 1.31]`, over the requested number of calls, if any."""
    if wishes.calls is None:
        return numbers.ratio(option.gain)
    over = f"{numbers.ratio(option.gain)} over {numbers.calls(wishes.calls)} calls"
    return f"{over} with its first call of {cells.first_call(option.row)}"


def _pays_when(option: Option) -> str:
    if high(option.gain) < 1 + MARGIN:
        return f"too few to pay for it, which takes {cells.break_even(option.row)} calls"
    return "so whether it pays is undecided"

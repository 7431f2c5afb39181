"""Recommends a mode for each model and shape, by intervals, never by point estimates alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import pandas as pd

from modescope.analysis.derive import formulas
from modescope.analysis.derive.flags import Figure
from modescope.analysis.derive.select import GROUP, SECTION, row_parts
from modescope.analysis.format import cells, numbers, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.recommend import types
from modescope.analysis.recommend.code import code
from modescope.analysis.recommend.constraints import ANYTHING, Wishes
from modescope.analysis.recommend.ties import cheapest
from modescope.analysis.recommend.types import (
    Choice,
    Question,
    Recommendation,
    Refusal,
    Tie,
    high,
    hurdle,
    low,
)
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import MARGIN, Estimate

QUESTION = (*GROUP, "compile_cache")
_COLUMNS = (
    *QUESTION, "run_id", "started_at", "mode", "apart", "grad", "autocast", "compile_mode", "graph",
    "device_name", "cpu_capability", "cpu_instructions", "budget", "budget_rank", "status",
    "reason", "in_effect", "in_effect_note", "flags", "flags_touch", "replicates", "error",
    "error_limit", "scale_error", "scale_error_limit", "max_error", "baseline_error",
    "baseline_error_limit", "checked", "checked_note", "checked_inputs", "checked_against",
    "latency_paired_s", "latency_paired_ci_low_s", "latency_paired_ci_high_s", "baseline_latency_s",
    "speedup", "speedup_ci_low", "speedup_ci_high",
    "confirming_speedup", "confirming_speedup_ci_low", "confirming_speedup_ci_high", "pace",
    "mde", "first_call_s", "baseline_first_call_s", "break_even_calls", "peak_bytes",
    "setup_peak_bytes", "weights_bytes", "input_bytes", "compile_options", "fullgraph",
    "speedup_process_spread",
)  # fmt: skip

NEAR = 0.03
"""Modes that are equally fast differ by less, whatever their intervals: in a disturbed study,
compile at 1.75× [1.23, 2.29] is not as fast as inference_mode at 1.19× [1.16, 1.24]."""

APART = 0.03
"""Two processes contradict each other if they differ by more, and their intervals do not overlap.
Paired speedups of the same code differ between processes by 0.4 % as a rule."""

RULES: tuple[tuple[str, Callable[[Row], object]], ...] = (
    ("skipped", lambda row: row["status"] == "skipped"),
    ("wrong", lambda row: row["status"] == "wrong_result"),
    ("failed", lambda row: row["status"] != "ok"),
    ("not_in_effect", lambda row: not row["in_effect"]),
    ("smoke", phrases.is_smoke),
    ("unchecked", lambda row: row["error"] is None and not phrases.unchecked(row)),
    ("wrong", lambda row: not phrases.unchecked(row) and _exceeds_its_limit(row)),
    ("baseline", lambda row: {"baseline_wrong", "baseline_not_in_effect"} & {*phrases.flags(row)}),
    ("no_interval", lambda row: row["speedup_ci_low"] is None),
)
"""What excludes a row, whatever its speedup; the first rule that holds is the reason. Timing flags
exclude nothing: rounds in random order keep the ratio valid, and each flag is reported with it."""


@dataclass(frozen=True)
class Option:
    """A row that may be chosen, and its gain over the baseline; both have an interval."""

    row: Row
    gain: Estimate


def recommend(
    table: pd.DataFrame, calls: float | None = None, memory_limit_bytes: int | None = None
) -> tuple[Recommendation, ...]:
    """The answer to each Question of a derived table, in the order of its sections.

    Usable rows ended ok, were in effect and correct, had more than a smoke budget and a correct
    baseline that was in effect, and have an interval. Results that could not be judged, and timing
    flags, are reported and disqualify no row.

    A mode is chosen if its interval lies above 1 + MARGIN, and above the noise floor (the baseline
    against itself) where that excludes 1. Modes within NEAR of the best, whose intervals allow a
    difference of less than MARGIN from it, are tied; the cheapest of those that were checked is
    chosen: by first call, memory, then simplicity. `calls` spreads the first call over so many
    further ones (`gain`). Where a second process of the mode or of the next best contradicts the
    first, the answer is undecided. Rows not known to fit into `memory_limit_bytes` are
    left out.
    """
    wishes = Wishes(calls, memory_limit_bytes)
    return tuple(
        _confirmed(_answer(rows, _baseline(section, rows[0]), wishes))
        for section in row_parts(phrases.as_rows(table[list(_COLUMNS)]), SECTION)
        for rows in row_parts(section, QUESTION)
    )


def unconfirmed(answers: Iterable[Recommendation], run_ids: Collection[str]) -> list[str]:
    """Those of these runs that a second process has to measure before one is recommended.

    Intervals hold within a process. An answer that would switch to a mode that compiles or captures
    therefore rests on two processes of that mode and of the next best (`bench.sweep.sweep`).
    """
    return [
        each.run_id
        for answer in answers
        for each in _pair(answer)
        if each.again is None and each.processes == 1 and each.run_id in run_ids
    ]


def _confirmed(answer: Recommendation) -> Recommendation:
    """The answer; undecided if the two processes of a mode contradict each other.

    The next best mode may, if even its better process stays below the recommended one.
    """
    for each in _pair(answer):
        if each.again is None or each.processes > 1:  # several say more than one other
            continue
        slower, faster = sorted((each.speedup, each.again), key=lambda one: one.value)
        is_apart = faster.value > slower.value * (1 + APART) and low(faster) > high(slower)
        is_behind = each is not answer.choice and high(each.again) < low(_pair(answer)[0].speedup)
        if is_apart and not is_behind:
            return replace(answer, outcome=types.BETWEEN, choice=None, tied=(), disputed=each)
    return answer


def _pair(answer: Recommendation) -> list[Choice]:
    """The mode that is recommended and the next best, where the first compiles or captures."""
    choice = answer.choice
    if answer.outcome != types.MODE or choice is None or not choice.compiles:
        return []
    return [choice, *([answer.rival] if answer.rival else [])]


def _baseline(section: Sequence[Row], case: Row) -> Row | None:
    """The run of the baseline itself; preferably a usable one with the same compiler cache."""
    named = (case["baseline_mode"], case["baseline_dtype"])
    runs = [r for r in section if r["status"] == "ok" and (r["mode"], r["dtype"]) == named]

    def doubts(row: Row) -> tuple[bool, ...]:
        return (
            not phrases.is_control(row), refusal(row, ANYTHING) is not None,
            row["compile_cache"] != case["compile_cache"],
        )  # fmt: skip

    return min(runs, key=doubts, default=None)


def _answer(rows: Sequence[Row], baseline: Row | None, wishes: Wishes) -> Recommendation:
    options, refused = list[Option](), list[Refusal]()
    for row in rows:
        if phrases.is_control(row):
            continue
        ratio = gain(row, wishes.calls, _baseline_first_call_s(row, baseline))
        why = refusal(row, wishes)
        if why is None and ratio is None:
            why = "first_call_unknown", "its first call, or the baseline's, is unknown"
        if why is not None:
            refused.append(Refusal(row["run_id"], phrases.mode(row), *why))
        elif ratio is not None:
            options.append(Option(row, ratio))
    floor, fits = _floor(baseline), fits_into(baseline, wishes.memory_limit_bytes)
    least_gain = 0.0 if fits is False else hurdle(floor)  # a baseline that does not fit cannot win
    winners = [option for option in options if low(option.gain) > least_gain]
    best = max(winners, key=lambda option: low(option.gain), default=None)
    close = [option for option in winners if best and _is_equal(option.gain, best.gain)]
    others = [one for one in options if one not in close]
    lost = (_lost(one, best if one in winners else None, least_gain, wishes) for one in others)
    rivals = [one for one in others if high(one.gain) >= 1]
    rival = max(rivals, key=lambda option: low(option.gain), default=None)
    outcome = _outcome(winners, options, refused, fits)
    choice, tied = _cheapest(close, baseline) if close else (None, ())
    if outcome == types.BASELINE and baseline is not None and floor is not None:
        choice = _choice(Option(baseline, floor), baseline)
    unchecked = [phrases.unchecked(row) for row in ([baseline] if baseline else rows)
                 if row["status"] == "ok"]  # fmt: skip
    return Recommendation(
        Question(**{field.name: rows[0][field.name] for field in fields(Question)}),
        wishes, outcome, choice, tied, (*lost, *refused), floor,
        min((option.row["replicates"] for option in options), default=1),
        max((s for one in options if (s := one.row["speedup_process_spread"])), default=None),
        _mde(options), fits,
        baseline_unchecked=unchecked[0] if unchecked and all(unchecked) else "",
        rival=_choice(rival, baseline) if rival else None,
    )  # fmt: skip


def _floor(baseline: Row | None) -> Estimate | None:
    """The baseline's speedup over itself, the noise floor; None without a usable run of it."""
    if baseline is None or not phrases.is_control(baseline) or refusal(baseline, ANYTHING):
        return None
    return estimates.stored_ratio(baseline, "speedup")


def _mde(options: Sequence[Option]) -> float | None:
    """The change that even the least certain row detects, of those that are no clear loss."""
    no_losses = [option for option in options if high(option.gain) >= 1 / (1 + MARGIN)]
    known = [option.row["mde"] for option in no_losses if option.row["mde"] is not None]
    return max(known, default=None) if len(known) == len(no_losses) else None


def _baseline_first_call_s(row: Row, baseline: Row | None) -> float | None:
    """The baseline's first call, measured with this row, or else in the baseline's own run.

    A baseline that compiles has none with this row: the case's own compilation warms its cache.
    """
    paired: float | None = row["baseline_first_call_s"]
    return paired if paired is not None or baseline is None else baseline["first_call_s"]


def gain(row: Row, calls: float | None, baseline_first_s: float | None) -> Estimate | None:
    """The baseline's total time ÷ this row's, over a first call and `calls` further ones.

    `calls` None: the speedup itself; first calls are ignored. The interval comes from the paired
    speedup alone, because first calls are single readings. A first call shorter than the baseline's
    counts as equal, and so does a difference that one reading cannot show (`formulas.extra_s`);
    where that is undecided, the measured first call counts. None where a time is unknown.
    """
    speedup = estimates.stored_ratio(row, "speedup")
    first_s, call_s = row["first_call_s"], row["baseline_latency_s"]
    if calls is None or speedup.low is None:
        return speedup
    if first_s is None or call_s is None or baseline_first_s is None:
        return None
    calls /= phrases.calls_of_a_step(row)
    extra_s = formulas.extra_s(row, baseline_first_s)
    spent_s = first_s if extra_s is None else baseline_first_s + extra_s

    def over_calls(ratio: float) -> float:
        return float((baseline_first_s + calls * call_s) / (spent_s + calls * call_s / ratio))

    return Estimate(*map(over_calls, (speedup.value, low(speedup), high(speedup))))


def refusal(row: Row, wishes: Wishes) -> tuple[str, str] | None:
    """Kind and reason for a row that cannot be recommended; None for one that can."""
    for kind, holds in RULES:
        if holds(row):
            return kind, ""
    limit_bytes = wishes.memory_limit_bytes
    fits = fits_into(row, limit_bytes)
    if limit_bytes is None or fits:
        return None
    limit = f"the limit of {numbers.limit(limit_bytes)}"
    if fits is None:
        return "memory_unknown", f"not known to fit into {limit}"
    needed_bytes, where = max(_needed(row))
    return "memory", f"{where} needs {numbers.size(needed_bytes)}, more than {limit}"


def _exceeds_its_limit(row: Row) -> bool:
    limit = phrases.accepted_error(row)
    return limit is not None and not row["error"] <= limit


def fits_into(row: Row | None, limit_bytes: int | None) -> bool | None:
    """Whether a row needs no more than the limit; None where that is unknown."""
    if limit_bytes is None:
        return True
    if row is None:
        return None
    if any(needed > limit_bytes for needed, _ in _needed(row)):
        return False
    return None if row["peak_bytes"] is None else True


def _needed(row: Row) -> Iterator[tuple[float, str]]:
    """The known peaks in bytes above an empty process.

    Weights and inputs, allocated earlier, are added to the first call's peak. On a CPU that peak is
    the growth of the process, compiler included, which has to fit as well.
    """
    first = (row["setup_peak_bytes"], row["weights_bytes"], row["input_bytes"])
    if row["peak_bytes"] is not None:
        yield float(row["peak_bytes"]), "a call"
    if None not in first:
        yield float(sum(first)), "the first call"


def _is_equal(one: Estimate, best: Estimate) -> bool:
    """Whether `one` is not below `best` by more than MARGIN, and near it.

    MARGIN also covers most differences of one mode's paired speedup between processes.
    """
    return not _is_less(one, best) and abs(math.log(one.value / best.value)) < math.log1p(NEAR)


def _is_less(one: Estimate, best: Estimate) -> bool:
    """Whether `one` is below `best` by more than MARGIN, even at the nearest interval ends."""
    apart = estimates.quotient(best, one)
    return apart is not None and low(apart) > 1 + MARGIN


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
    row, reason = option.row, ""
    speedup = estimates.stored_ratio(row, "speedup")
    if best:
        kind = "less" if _is_less(option.gain, best.gain) else "open"
    elif high(speedup) < 1 / (1 + MARGIN):
        kind = "slower"
    elif wishes.calls is not None and low(speedup) > least_gain:
        kind, pays = "unpaid", "undecided whether it pays"
        if high(option.gain) < 1 + MARGIN:
            pays = f"it pays after {cells.break_even(row)} calls"
        reason = f"{numbers.ratio(option.gain)} over {numbers.calls(wishes.calls)} calls, {pays}"
    else:
        kind = "noise" if low(speedup) > 1 + MARGIN else "no_difference"
    return Refusal(row["run_id"], phrases.mode(row), kind, reason)


def _cheapest(close: Sequence[Option], baseline: Row | None) -> tuple[Choice, tuple[Tie, ...]]:
    by_id = {option.row["run_id"]: option for option in close}
    row, why = cheapest([option.row for option in close])
    tied = tuple(Tie(_choice(by_id[run_id], baseline), reason) for run_id, reason in why.items())
    return _choice(by_id[row["run_id"]], baseline), tied


def _choice(option: Option, baseline: Row | None) -> Choice:
    row = option.row
    peaks = (row["peak_bytes"], baseline["peak_bytes"] if baseline else None)
    again = estimates.stored_ratio(row, "confirming_speedup")
    return Choice(
        run_id=row["run_id"],
        mode=phrases.mode(row),
        dtype=row["dtype"],
        speedup=estimates.stored_ratio(row, "speedup"),
        gain=option.gain,
        latency=estimates.stored_duration(row, "latency_paired"),
        error=row["error"],
        baseline_error=row["baseline_error"],
        first_call_s=row["first_call_s"],
        break_even_calls=row["break_even_calls"],
        peak_bytes=peaks[0],
        extra_bytes=None if None in peaks else peaks[0] - peaks[1],
        processes=row["replicates"],
        flags=tuple(phrases.flags(row, Figure.SPEEDUP)),
        code=code(row),
        unchecked=phrases.unchecked(row),
        compiles=bool(row["compile_mode"] != "none" or row["graph"]),
        again=again if again.low is not None else None,
        pace=row["pace"] if "slow_pace" in phrases.flags(row) else None,
    )

"""Decides whether a row gained or lost against its baseline, and words the result."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from modescope.analysis.estimates import high, low
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.stats.estimates import ONE, Estimate, Verdict, hull, is_wide, quotient

UNDECIDED = "no known cause explains it by what was measured"
UNPROFILED = "without a profile (profile=true) it is not known why"

LEAST_OF_A_LOSS = 0.75
"""The causes of a slower call explain it if together they take this share of the added time."""

LEAST_OF_A_GAIN = 0.1
"""A cause explains a faster call only if it saves this share of the time that is saved."""

LITTLE = 0.1
"""A gain or a loss below a tenth is little: a reader then asks why the mode is not faster."""

LONG = 1000
"""A first call is long if it takes as long as this many calls of the baseline."""


class Outcome(StrEnum):
    """What a row gained or lost against its baseline, as its causes explain it."""

    SLOWER = "slower"
    FASTER = "faster"  # by a tenth or more
    LITTLE_OR_NOTHING = "little"


def undecided(row: Row) -> str:
    """Says why no cause of a row's speedup is named, in a text that can follow a colon."""
    if row["verdict"] != Verdict.INCONCLUSIVE:
        return UNPROFILED if row["profiler_overhead"] is None else UNDECIDED
    longer = "" if row["budget"] == "thorough" else "longer (budget=thorough) or "
    processes = f"in more processes (replicates={max(5, 2 * row['replicates'])})"
    return f"the interval is too wide; measure {longer}{processes}"


def is_compared(row: Row) -> bool:
    """Whether the row has an interval of its speedup, and is not the baseline itself.

    A row on CUDA is not compared either if its host was slow.
    """
    known = predicates.has_interval(row) and predicates.host_slower(row) is None
    return known and not predicates.is_control(row)


def is_faster(row: Row) -> bool:
    """Whether the interval of the speedup lies above 1."""
    return is_compared(row) and low(row["speedup"]) > 1


def is_slower(row: Row) -> bool:
    """Whether the interval of the speedup lies below 1."""
    return is_compared(row) and high(row["speedup"]) < 1


def is_loss(row: Row) -> bool:
    """Whether the row's verdict is that it is slower: what limits a gain does not explain it."""
    return is_compared(row) and bool(row["verdict"] == Verdict.SLOWER)


def is_no_gain(row: Row) -> bool:
    """Whether the upper end of the speedup's interval lies between 1 ÷ 1.1 and 1.1.

    The mode then surely gains less than a tenth, and is not shown to lose a tenth.
    """
    return is_compared(row) and 1 / (1 + LITTLE) < high(row["speedup"]) < 1 + LITTLE


def is_gain(row: Row) -> bool:
    """Whether the row is faster, and its interval allows a gain of a tenth or more."""
    return is_faster(row) and not is_no_gain(row)


def is_loser(row: Row) -> bool:
    """Whether the interval of the speedup lies below 1 ÷ 1.1: the mode loses more than a tenth."""
    return is_compared(row) and high(row["speedup"]) < 1 / (1 + LITTLE)


def is_compiled(row: Row) -> bool:
    """Whether the row's mode compiles the model."""
    return bool(row["compile_mode"] != "none")


def is_same_precision(row: Row) -> bool:
    """Whether the row computes at its baseline's dtype, without autocast or fewer bits."""
    own = row["autocast"] or row["quantize"]
    return bool(row["dtype"] == row["baseline_dtype"] and not own)


def long_first_call(row: Row) -> float | None:
    """Returns the time of the first call in calls of the baseline; None if below LONG or unknown.

    A build ahead of time counts as part of it.
    None also for a mode that neither compiles nor captures, and for a row that is not compared.
    """
    first_s, call_s = phrases.setup_s(row), row["baseline_latency_s"]
    if not is_compared(row) or not (is_compiled(row) or row["graph"]):
        return None
    if first_s is None or call_s is None:
        return None
    calls = first_s / call_s.value * predicates.calls_of_a_step(row)
    return calls if calls >= LONG else None


def lead(row: Row) -> str:
    """Returns the text of `comparison`, followed by a clause on the first call where it matters.

    For a faster mode the clause says after how many calls its compiling or capturing pays; for
    another mode it is there only if the first call is long (LONG).
    """
    return f"{comparison(row)}{_first_call(row)}"


def comparison(row: Row) -> str:
    """Says how a row compares with its baseline: `amp takes 5.30× as long as eager`."""
    mode, against = name(row), _baseline(row)
    if predicates.not_in_effect(row):
        return f"{mode} is not in effect"
    if predicates.is_control(row):
        return f"{mode} is the baseline"
    ratio = row["speedup"]
    if ratio is None or ratio.low is None:
        return mode
    speedup = numbers.ratio(ratio)
    if row["verdict"] == Verdict.FASTER:
        only = "only " if is_no_gain(row) else ""
        return f"{mode} is {only}{numbers.middle(ratio)} as fast as {against}"
    if row["verdict"] == Verdict.SLOWER:
        return f"{mode} takes {as_long(ratio)} as long as {against}"
    if row["verdict"] == Verdict.EQUIVALENT:
        return f"{mode} is as fast as {against}, {speedup}"
    return f"{mode} is not shown to be faster or slower than {against}, {speedup}"


def comparison_of(rows: Sequence[Row]) -> str:
    """Says how several rows of equal `outcome` compare with their baseline.

    For example `amp and eager bf16 take 5.30× to 6.00× as long as eager`.
    """
    names = phrases.listed(list(dict.fromkeys(map(name, rows))))
    found, against = outcome(rows[0]), _baseline(rows[0])
    ratios = [required(row["speedup"]) for row in rows]
    span = range_of(ratios, found == "slower")
    if found == Outcome.LITTLE_OR_NOTHING:
        values = sorted(ratio.value for ratio in ratios)
        if not any(map(is_wide, ratios)):
            span = f"{values[0]:.3f}× to {values[-1]:.3f}×"
        return f"{names} gain little or nothing over {against}, {span}"
    does = "take {} as long as" if found is Outcome.SLOWER else "are {} as fast as"
    return f"{names} {does.format(span)} {against}"


def as_long(ratio: Estimate) -> str:
    """Formats how many times as long as the other a call takes that is `ratio` times as fast."""
    longer = quotient(ONE, ratio)
    assert longer is not None
    return numbers.middle(longer)


def range_of(ratios: Sequence[Estimate], inverted: bool = False) -> str:
    """Formats the range of several ratios: `5.30× to 6.00×`; of ends, if an interval is wide.

    `inverted`: whether to take 1 ÷ each, how many times as long a call takes.
    """
    every = [quotient(ONE, ratio) if inverted else ratio for ratio in ratios]
    known = [ratio for ratio in every if ratio is not None]
    if any(map(is_wide, known)):
        return numbers.middle(hull(known))
    values = sorted(ratio.value for ratio in known)
    return " to ".join(dict.fromkeys(map(numbers.factor, (values[0], values[-1]))))


def outcome(row: Row) -> Outcome:
    """Classifies a row that is compared with its baseline."""
    if is_loss(row):
        return Outcome.SLOWER
    return Outcome.FASTER if is_gain(row) else Outcome.LITTLE_OR_NOTHING


def name(row: Row) -> str:
    """Returns the row's mode, followed by its dtype if that is not the baseline's: `eager bf16`.

    The dtype of autocast is left out: `amp`.
    """
    mode = phrases.mode(row)
    is_cast = row["dtype"] != row["baseline_dtype"] and not row["autocast"]
    return f"{mode} {row['dtype']}" if is_cast else mode


def _baseline(row: Row) -> str:
    mode, dtype = row["baseline_mode"], row["baseline_dtype"]
    return str(mode) if dtype == row["dtype"] else f"{mode} {dtype}"


def _first_call(row: Row) -> str:
    pays_after, after = row["break_even_calls"], phrases.first_time(row)
    builds = is_compiled(row) or row["graph"]
    if row["verdict"] == Verdict.FASTER and builds and pays_after:
        calls = numbers.calls(pays_after)
        return f" after a {after}, which pays after {calls} calls"
    calls_of_baseline = long_first_call(row)
    if (
        calls_of_baseline is None
        or row["verdict"] == Verdict.FASTER
        or predicates.not_in_effect(row)
    ):
        return ""
    length = f"as long as {numbers.calls(calls_of_baseline)} calls of {row['baseline_mode']}"
    return f", after a {after}, {length}"

"""What a mode saves relative to plain eager, and what part of it a cause may claim."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.analysis.causes.evidence import UNRELIABLE, share_of_call
from modescope.analysis.causes.outcome import is_compiled
from modescope.analysis.derive.flags import CONTENDED
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.bench.stats.estimates import (
    ONE,
    Estimate,
    difference,
    ends,
    exactly,
    is_wide,
    product,
    quotient,
)

NOTHING = exactly(0.0)


@dataclass(frozen=True)
class Savings:
    """What a mode saves relative to plain eager, as shares of the baseline's call.

    `overhead` is saved time outside of kernels, `work` saved time in kernels. A negative share is
    added time.
    """

    overhead: Estimate
    work: Estimate


def savings(row: Row, plain: Row | None) -> Savings | None:
    """Returns what `row` saves relative to `plain`, the row of plain eager.

    None if there is no such row, or if the overhead or the work of one of the two is unknown. They
    were measured in separate processes, so each is first divided by the baseline that was timed in
    its own process. The intervals of the result are the worst case of all intervals. On CUDA work
    is device time, of which `row` saves what the rounds of `device_gain` show; the rest of what it
    saves is overhead. On a CPU, if the overhead of `row` comes from its profile, that of `plain`
    does, too, because a profile counts more time as overhead than direct timing does.
    """
    if plain is None:
        return None
    if predicates.on_cuda(row):
        return _savings_on_cuda(row, plain)
    share = overhead_share(plain)
    if _is_by_profile(row):
        share = _with_profile(share, _profiled_overhead(plain))
    before, after = _parts(plain, share), _parts(row, overhead_share(row))
    if before is None or after is None:
        return None
    overhead, work = difference(before[0], after[0]), difference(before[1], after[1])
    known = overhead is not None and work is not None and None not in (overhead.low, work.low)
    return Savings(overhead, work) if known else None  # type: ignore[arg-type]


def _savings_on_cuda(row: Row, plain: Row) -> Savings | None:
    sides = [(_saved(side), _saved_work(side)) for side in (plain, row)]
    (saved_before, work_before), (saved, work) = sides
    whole, work = difference(saved, saved_before), difference(work, work_before)
    overhead = difference(whole, work)
    known = overhead is not None and work is not None and None not in (overhead.low, work.low)
    return Savings(overhead, work) if known else None  # type: ignore[arg-type]


def _saved(row: Row) -> Estimate | None:
    """Returns the share of its baseline's call that `row` saves."""
    if predicates.is_control(row):
        return NOTHING
    known = predicates.has_interval(row)
    return difference(ONE, quotient(ONE, row["speedup"])) if known else None


def _saved_work(row: Row) -> Estimate | None:
    """Returns the device time that `row` saves, as a share of its baseline's call."""
    if predicates.is_control(row):
        return NOTHING
    gain, device_s, whole_s = row["device_gain"], row["device_s"], row["baseline_latency_s"]
    if gain is None or device_s is None or whole_s is None:
        return None
    rest = difference(ONE, quotient(ONE, gain))
    if rest is None or rest.low is None or rest.high is None:
        return None
    share = gain.value * device_s.value / whole_s.value  # the baseline's device time in its call
    return Estimate(*(share * number for number in (rest.value, rest.low, rest.high)))


def _is_by_profile(row: Row) -> bool:
    """Whether the value of `overhead_share(row)` comes from the profile."""
    if _profiled_overhead(row) is None:
        return False
    return is_compiled(row) or _within_a_call(row["dispatch_share"]) is None


def _with_profile(clocked: Estimate | None, profiled: Estimate | None) -> Estimate | None:
    if clocked is None or profiled is None:
        return clocked
    (least, most), (low, high) = ends(clocked), ends(profiled)
    return Estimate(profiled.value, min(least, low), max(most, high))


def _parts(row: Row, share: Estimate | None) -> tuple[Estimate | None, Estimate | None] | None:
    """Returns a call's time outside and inside kernels, as shares of the baseline's call.

    `share`: the part of the row's own call in which no kernel runs. The result is None if `share`
    or the speedup is unknown.
    """
    if share is None or not predicates.has_interval(row):
        return None
    length = quotient(ONE, row["speedup"])
    return product(length, share), product(length, difference(ONE, share))


def overhead_share(row: Row) -> Estimate | None:
    """Returns the share of a CPU's call in which no kernel runs, with an interval; None if unknown.

    It is the timed time of dispatch (the same call on an empty batch) ÷ that of the call; if
    dispatch was not timed, the share in the profile. For compiled code, timed dispatch contains
    guards and Python but no launches, so it only limits the interval from below; value and upper
    end are the profile's.
    """
    clocked = _within_a_call(row["dispatch_share"])
    profiled = _profiled_overhead(row)
    if not is_compiled(row) or clocked is None:
        return clocked or profiled
    return _of_compiled(clocked, profiled)


def _within_a_call(share: Estimate | None) -> Estimate | None:
    if share is None or share.low is None or share.high is None:
        return None
    return Estimate(
        *(min(1.0, max(0.0, number)) for number in (share.value, share.low, share.high))
    )


def _of_compiled(clocked: Estimate, profiled: Estimate | None) -> Estimate:
    guards = ends(clocked)[0]
    if profiled is None:
        return Estimate(clocked.value, guards, 1.0)
    low, high = ends(profiled)
    return Estimate(profiled.value, min(high, max(low, guards)), high)


def _profiled_overhead(row: Row) -> Estimate | None:
    """The share of a call in which no kernel runs, by the profile; None without a reliable profile.

    The profiler slows small operators more than kernels, so the share in the profile is the upper
    end of the interval. The lower end assumes that the profiler slowed operators only. If other
    programs ran meanwhile, the lower end is 0, because time without a kernel may be time spent
    waiting for the processor.
    """
    slower = row["profiler_overhead"]
    work = share_of_call(row, row["kernels_s"])
    if work is None or slower is None or not UNRELIABLE.isdisjoint(predicates.flags(row)):
        return None
    if CONTENDED in predicates.flags(row):
        return Estimate(1 - work, 0.0, 1 - work)
    return Estimate(1 - work, max(0.0, 1 - work * max(1.0, slower)), 1 - work)


def claim(share: Estimate, *rows: Row | None) -> tuple[float, str]:
    """Returns the share that a cause may claim, and the words before it, if any: `at least `.

    It is the lower end of `share` if the interval of the speedup of one of `rows` is wide.
    """
    if any(row is not None and is_wide(row["speedup"]) for row in rows):
        return ends(share)[0], "at least "
    return share.value, ""


def negative(share: Estimate) -> Estimate:
    """Returns what is added where `share` is saved."""
    low, high = ends(share)
    return Estimate(-share.value, -high, -low)


def saved_by(speedup: Estimate) -> Estimate:
    """Returns the share of the baseline's call that a mode with this speedup saves."""
    saved = difference(ONE, quotient(ONE, speedup))
    assert saved is not None
    return saved

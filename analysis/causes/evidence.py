"""Functions that read a row's evidence for the rules: texts, profiled kernels, shares of a call."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from modescope.analysis.causes.outcome import is_compiled
from modescope.analysis.derive.flags import CONTENDED
from modescope.analysis.derive.profile import DOUBTS
from modescope.analysis.format import numbers
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import value_of
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

UNRELIABLE = {*DOUBTS, "split_disagrees"}
"""Flags of a profile that does not agree with the clocks; rules do not read such a profile."""

_GENERATED = re.compile(r"(?:^|_)(?:cpp_fused|triton_)")
_PRODUCT = re.compile(
    r"^aten::(?:addmm|mm|bmm|baddbmm|linear|convolution|mkldnn_\w+|_scaled_dot_product\w*)$"
    r"|gemm|gemv|nvjet|cutlass|xmma|fmha|flash|splitKreduce|^triton_tem_"
)
_INPUT_COPY = re.compile(r"multi_tensor_apply_kernel.*Copy|Memcpy DtoD")
_LONGEST_NAME = 40  # characters; names of C++ templates have hundreds
_MOST_NAMED = 2


@dataclass(frozen=True)
class Kernel:
    """All runs of one kernel in a profiled call, for one of the ten kernels with the most time.

    On a CPU, a kernel is an operator. `count`: its runs in the call. `seconds`: their total time.
    """

    name: str
    count: float
    seconds: float

    @property
    def is_generated(self) -> bool:
        """Whether Inductor generated the kernel, as C++ for a CPU or as Triton for a GPU."""
        return _GENERATED.search(self.name) is not None

    @property
    def is_template(self) -> bool:
        """Whether the kernel is a Triton template, which autotuning chose for a product."""
        return self.name.startswith("triton_tem_")

    @property
    def is_product(self) -> bool:
        """Whether the kernel computes matrix products, convolutions or attention.

        Of the kernels that Inductor generated, only Triton templates do.
        """
        is_fused = self.is_generated and not self.is_template
        return not is_fused and _PRODUCT.search(self.name) is not None


def texts(row: Mapping[str, Any], column: str) -> list[str]:
    """The texts in a column that holds a JSON list, or an empty list if the column has no value."""
    value = row.get(column)
    return [" ".join(str(text).split()) for text in json.loads(value)] if value else []


def kernels(row: Row | None) -> tuple[Kernel, ...]:
    """The heaviest kernels of a row; empty without a profile that agrees with the timings."""
    if row is None or not row["heaviest_kernels"] or not row["profiled_span_s"]:
        return ()
    if not UNRELIABLE.isdisjoint(predicates.flags(row)):
        return ()
    return _parse_kernels(row["heaviest_kernels"])


@lru_cache(maxsize=64)  # several rules read the same rows
def _parse_kernels(text: str) -> tuple[Kernel, ...]:
    return tuple(Kernel(**entry) for entry in json.loads(text))


def seconds(several: Iterable[Kernel]) -> float:
    """The summed time of the kernels in `several`, in seconds."""
    return sum(kernel.seconds for kernel in several)


def fewer_kernels(row: Row, before: Row) -> str:
    """Says how many kernels became how many; empty if unknown, or if there are not fewer.

    On a CPU Inductor puts several loops into one function, fused or not, so its kernels are called
    what they are.
    """
    if predicates.on_cuda(row):
        return became(row, before, "kernels", "kernels")
    fewer = became(row, before, "kernels", "operators")
    return f"{fewer} operators and generated functions" if fewer else ""


def became(row: Row, before: Row, column: str, what: str) -> str:
    """Says how many of `what` became how many, if they are fewer: `40 operators became 10`."""
    then, now = value_of(before, column), value_of(row, column)
    if then is None or now is None or now >= then:
        return ""
    return f"{numbers.count(then)} {what} became {numbers.count(now)}"


def only_in(row: Row, other: Row | None) -> list[Kernel]:
    """The kernels of `row` that `other` does not have, by their names."""
    names = {kernel.name for kernel in kernels(other)}
    return [kernel for kernel in kernels(row) if kernel.name not in names]


def input_copies(row: Row, plain: Row | None) -> list[Kernel]:
    """The kernels that copy a call's inputs into a CUDA graph's buffers, which eager does not have.

    Empty for training, where an optimizer runs kernels of the same names.
    """
    if row["phase"] != "inference" or not row["graph_launches"]:
        return []
    return [kernel for kernel in only_in(row, plain) if _INPUT_COPY.search(kernel.name)]


def share_of_call(row: Row, part_s: float | None) -> float | None:
    """Returns `part_s` seconds as a share of `row`'s profiled call; None if unknown or above 1."""
    span_s = row["profiled_span_s"]
    if part_s is None or not span_s:
        return None
    share = float(part_s / span_s)
    return share if share <= 1 else None


def heaviest_names(several: Iterable[Kernel], row: Row) -> str:
    """The two heaviest kernels with their shares of a call: `aten::mm 75 %, aten::gelu 6 %`."""
    heaviest = sorted(several, key=lambda kernel: -kernel.seconds)[:_MOST_NAMED]
    return ", ".join(
        f"{shorten(kernel.name)} {numbers.share(kernel.seconds, row['profiled_span_s'])}"
        for kernel in heaviest
    )


def shorten(name: str) -> str:
    """Cuts `name` to 40 characters if it is longer."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def pace_ratio(row: Row, other: Row) -> float | None:
    """How many times slower the machine ran while `row` was profiled than while `other` was.

    A time of `row` divided by this ratio is comparable with a time of `other`. The ratio is 1 on
    CUDA, and None if one of the two speeds is unknown.
    """
    if predicates.on_cuda(row):
        return 1.0  # the pace is the host's, and kernels run on the device
    one_s, other_s = row["profiled_pace_s"], other["profiled_pace_s"]
    return float(one_s / other_s) if one_s and other_s else None


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


def durations(*times_s: float) -> list[str]:
    """Formats times that are compared with each other, all in one unit: `1.04 ms`, `0.698 ms`.

    The unit fits the longest time, or the shortest time if that is less than a tenth of the unit.
    """
    scale, unit = numbers.time_unit(max(times_s))
    if min(times_s) < scale / 10:
        scale, unit = numbers.time_unit(min(times_s))
    values = [time_s / scale for time_s in times_s]
    texts = (f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}" for value in values)
    return [f"{text} {unit}" for text in texts]


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
    share = (
        gain.value * device_s.value / whole_s.value
    )  # of the baseline's call, which its device time is
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


def first_and_count(reasons: Collection[Any]) -> str:
    """The first of several texts, and the number of the others: `graph break (and 2 more)`."""
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{next(iter(reasons))}{more}"

"""Whether overhead or work determines the time of a call, on a CPU and on CUDA."""

from __future__ import annotations

import math
from dataclasses import dataclass

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row

HALF = 0.5  # of a call: on a CPU a call is bound by overhead if dispatch takes more


@dataclass(frozen=True)
class Overhead:
    """The overhead on a kind of device, and the time that it is compared with."""

    clock: str  # of the overhead; `<clock>_s` is its column
    against: str  # the clock that it is compared with
    share: float  # of that clock, above which a call is bound by overhead
    name: str  # in a sentence
    label: str  # title of an axis
    exceeds: str  # the condition for being bound by overhead, in words
    meets: str  # the same at equality


_CPU = Overhead(
    "dispatch", "latency", HALF, "dispatch", "dispatch (empty batch)",
    "dispatch takes more than half of the call", "dispatch = half of the call",
)  # fmt: skip
_CUDA = Overhead(
    "host", "device", 1.0, "host time", "host time",
    "the host is busy for longer than the device", "host time = device time",
)  # fmt: skip
CLOCKS = tuple(clock for kind in (_CPU, _CUDA) for clock in (kind.clock, kind.against))


def overhead(row: Row) -> Overhead:
    """Host against device on CUDA, where both run in parallel; dispatch against half a CPU call."""
    return _CUDA if phrases.on_cuda(row) else _CPU


def overhead_s(row: Row) -> float | None:
    """The overhead in the time of a call; None where unknown."""
    seconds: float | None = row[f"{overhead(row).clock}_s"]
    return seconds


def excess(row: Row) -> float | None:
    """ln(overhead ÷ its threshold): above 0 if bound by overhead; None where unknown."""
    seconds, counterpart_s = overhead_s(row), row[f"{overhead(row).against}_s"]
    if not seconds or not counterpart_s:
        return None
    return math.log(seconds / counterpart_s / overhead(row).share)


def side(row: Row) -> str | None:
    """`overhead` if it exceeds its threshold, `work` if it lies below it.

    `undecided` if the intervals allow both; None where an interval is unknown.
    """
    kind = overhead(row)
    low, high = (row[f"{kind.clock}_ci_{end}_s"] for end in ("low", "high"))
    other_low, other_high = (row[f"{kind.against}_ci_{end}_s"] for end in ("low", "high"))
    if None in (low, high, other_low, other_high):
        return None
    if low > other_high * kind.share:
        return "overhead"
    return "work" if high < other_low * kind.share else "undecided"

"""Is it overhead or work that sets how long a call takes? On a CPU and on CUDA."""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis import words
from analysis.words import Row

HALF = 0.5  # of a call: on a CPU dispatch takes more than that where overhead is what counts


@dataclass(frozen=True)
class Overhead:
    """What counts as overhead on a kind of device, and the time that it is held against."""

    clock: str  # of the overhead; `<clock>_s` is its column
    against: str  # the clock of the counterpart
    share: float  # of the counterpart, from which on a call is bound by overhead
    name: str  # in a sentence
    label: str  # over an axis
    exceeds: str  # what is so where a call is bound by overhead
    meets: str  # what is so at the border


_CPU = Overhead(
    "dispatch", "latency", HALF, "dispatch", "dispatch (empty batch)",
    "dispatch takes more than half of the call", "dispatch is half of it",
)  # fmt: skip
_CUDA = Overhead(
    "host", "device", 1.0, "host time", "host time",
    "the host is busy for longer than the device", "host time = device time",
)  # fmt: skip
CLOCKS = tuple(clock for kind in (_CPU, _CUDA) for clock in (kind.clock, kind.against))


def overhead(row: Row) -> Overhead:
    """Host against device on CUDA, where both run at once; dispatch and half a call on a CPU."""
    return _CUDA if words.on_cuda(row) else _CPU


def overhead_s(row: Row) -> float | None:
    """The time of a call that is overhead; None where unknown."""
    seconds: float | None = row[f"{overhead(row).clock}_s"]
    return seconds


def excess(row: Row) -> float | None:
    """ln(overhead / what it is held against): above 0 where overhead is longer; None: unknown."""
    seconds, counterpart_s = overhead_s(row), row[f"{overhead(row).against}_s"]
    if not seconds or not counterpart_s:
        return None
    return math.log(seconds / counterpart_s / overhead(row).share)


def side(row: Row) -> str | None:
    """`overhead` where it is longer than what it is held against, `work` where it is shorter.

    `undecided` where the intervals allow both; None where one of them is unknown.
    """
    kind = overhead(row)
    low, high = (row[f"{kind.clock}_ci_{end}_s"] for end in ("low", "high"))
    other_low, other_high = (row[f"{kind.against}_ci_{end}_s"] for end in ("low", "high"))
    if None in (low, high, other_low, other_high):
        return None
    if low > other_high * kind.share:
        return "overhead"
    return "work" if high < other_low * kind.share else "undecided"

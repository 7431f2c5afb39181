"""The parts of a call, and whether overhead or work determines its time, on a CPU and on CUDA."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from modescope.analysis.derive.formulas import Formula
from modescope.analysis.derive.select import per_row
from modescope.analysis.estimates import number_of, values
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, value_of
from modescope.bench.stats.estimates import Estimate

HALF = 0.5  # of a call: on a CPU a call is bound by overhead if dispatch takes more


@dataclass(frozen=True)
class Overhead:
    """What counts as overhead on one kind of device, and the time that it is compared with.

    A clock is the name of what is timed: `host` or `dispatch` as overhead, compared with `device`
    or `latency`.
    """

    clock: str  # of the overhead
    against: str  # the clock that it is compared with
    ratio: str  # the column of their ratio within rounds
    threshold: float  # of that ratio, above which a call is bound by overhead
    name: str  # in a sentence


_CPU = Overhead("dispatch", "latency", "dispatch_share", HALF, "dispatch")
_CUDA = Overhead("host", "device", "host_per_device", 1.0, "host time")


def overhead(row: Row) -> Overhead:
    """Returns what counts as overhead on a row's device.

    On CUDA, host time is compared with device time, because both run in parallel. On a CPU,
    dispatch is compared with half of the call.
    """
    return _CUDA if predicates.on_cuda(row) else _CPU


def overhead_s(row: Row) -> float | None:
    """Returns the seconds of overhead in a call, comparable between rows; None if unknown.

    Rows are separate processes, so on a CPU the seconds are converted to the machine's full pace
    (`latency_at_full_pace_s`). On CUDA, and in records without a pace, they are as measured.
    """
    kind = overhead(row)
    share: Estimate | None = value_of(row, kind.ratio)
    full_s = row["latency_at_full_pace_s"]
    if share is None or full_s is None:
        return number_of(row, f"{kind.clock}_s")
    return share.value * full_s.value


def excess(row: Row) -> float | None:
    """Returns ln(ratio ÷ threshold) of the row's overhead (see Overhead); None if it is unknown.

    It is above 0 if the call is bound by overhead.
    """
    kind = overhead(row)
    ratio = number_of(row, kind.ratio)
    return math.log(ratio / kind.threshold) if ratio is not None and ratio > 0 else None


def side(row: Row) -> str | None:
    """Returns what limits a call: `overhead` or `work`; None if it is unknown.

    `undecided` if the interval of the overhead's ratio contains the threshold.
    """
    kind = overhead(row)
    ratio: Estimate | None = value_of(row, kind.ratio)
    if ratio is None or ratio.low is None or ratio.high is None:
        return None
    if ratio.low > kind.threshold:
        return "overhead"
    return "work" if ratio.high < kind.threshold else "undecided"


def clock_paired_s(clock: str) -> Formula:
    """Returns the formula of the column `<clock>_paired_s`, seconds of a call, such as the host's.

    The formula is `latency_paired_s` × `<clock>_share`, but on CUDA `<clock>_s`.
    """

    def shown_s(rows: pd.DataFrame) -> pd.Series:
        scaled = values(rows["latency_paired_s"]) * values(rows[f"{clock}_share"])
        return scaled.mask(rows["_on_cuda"], values(rows[f"{clock}_s"]))

    return shown_s


def launch_s(rows: pd.DataFrame) -> pd.Series:
    """Returns the host's seconds in a call less those of dispatch; null on a CPU.

    They go to launching, and to what an empty batch does not need: libraries that choose a kernel
    (cuBLASLt), and allocation.
    """
    return _part_s(values(rows["host_s"]) - values(rows["dispatch_s"])).where(rows["_on_cuda"])


def work_s(rows: pd.DataFrame) -> pd.Series:
    """Returns the seconds of work in a call: device time, or on a CPU latency less dispatch."""
    on_cpu = _part_s(values(rows["latency_paired_s"]) * (1 - values(rows["dispatch_share"])))
    return on_cpu.mask(rows["_on_cuda"], values(rows["device_s"]))


def host_wait_s(rows: pd.DataFrame) -> pd.Series:
    """Returns the seconds that the host waits for the device in a call; null on a CPU."""
    return _part_s(values(rows["latency_s"]) - values(rows["host_s"])).where(rows["_on_cuda"])


def bound_by(rows: pd.DataFrame) -> pd.Series:
    """Returns what limits each call: `overhead`, `work`, or `undecided` if both may; else null."""
    needed = ["device", _CPU.ratio, _CUDA.ratio]
    return per_row(rows, map(side, as_rows(rows[needed])), "object")


def _part_s(seconds: pd.Series) -> pd.Series:
    return seconds.clip(lower=0)  # clocks of separate rounds may differ by noise

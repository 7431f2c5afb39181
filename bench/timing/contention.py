"""Measures the load that other programs put on this machine's cores during a measurement.

The load is the difference between the system's counters before and after. Linux has all counters;
on other systems most are None. Does not import torch.
"""

from __future__ import annotations

import os
import re
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from modescope.bench.records.columns.timing import Contention
from modescope.bench.records.cpu import cgroups, lines_of
from modescope.bench.timing.rounds import Interruptions

THROTTLED_UNITS_S = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
"""Keys of throttled time in cpu.stat, and its unit in seconds: of cgroups of version 2, then of
version 1 (kernel documents cgroup-v2, sched-bwc)."""

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Counters:
    """The system's counters at one moment. Only differences mean something: none starts at zero.

    `throttled_s`: time for which CPU quotas stopped the process's cgroup. What the system does not
    count is None.
    """

    wall_s: float
    own_s: float  # CPU time of all threads of this process
    waited_s: float | None  # this thread, ready to run but without a core
    idle_s: float | None  # of all cores together
    cores: int | None  # of the machine, whether or not this process may use them
    throttled_s: float | None


def read(root: Path = Path("/")) -> Counters:
    """Reads the counters of the calling thread, and of the machine whose files lie under `root`."""
    idle_s, cores = _idle_and_cores(root)
    return Counters(
        wall_s=time.perf_counter(),
        own_s=time.process_time(),
        waited_s=_waited_s(root),
        idle_s=idle_s,
        cores=cores,
        throttled_s=_throttled_s(root),
    )


def load_between(before: Counters, after: Counters) -> Contention:
    """Returns the load between `before` and `after`, both read by the same thread.

    CPU time of other programs is all busy time of the cores minus that of this process. It includes
    time that a hypervisor gave to other guests, and may be off by 10 ms, the unit of idle time.
    """
    wall_s = after.wall_s - before.wall_s
    idle_s = _difference(before.idle_s, after.idle_s)
    others_s = None
    if idle_s is not None and after.cores is not None:
        others_s = max(0.0, wall_s * after.cores - idle_s - (after.own_s - before.own_s))
    return Contention(
        watched_s=wall_s,
        cpu_wait_s=_difference(before.waited_s, after.waited_s),
        others_cpu_s=others_s,
        machine_cores=after.cores,
        cgroup_throttled_s=_difference(before.throttled_s, after.throttled_s),
    )


def interruptions(root: Path = Path("/")) -> Interruptions:
    """Returns what counts the interruptions of this process, of all of its threads.

    They are involuntary context switches, and ticks of all cores that a hypervisor gave to others
    (stolen time in /proc/stat; 0 on systems without that file).
    """

    def switches() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw

    def stolen() -> int:
        totals = [line.split() for line in lines_of(root / "proc/stat") if line[:4] == "cpu "]
        return int(totals[0][8]) if totals and len(totals[0]) > 8 else 0

    return Interruptions(switches, stolen)


def _difference(before: Number | None, after: Number | None) -> Number | None:
    return None if before is None or after is None else after - before


def _waited_s(root: Path) -> float | None:
    """Seconds that this thread was ready to run but had no core; None if they are not counted.

    /proc/thread-self/schedstat has one line, "running waited slices", in nanoseconds; it is "0 0 0"
    if the kernel does not count.
    """
    for line in lines_of(root / "proc/thread-self/schedstat"):
        running, waited, _ = map(int, line.split())
        return waited * 1e-9 if running else None
    return None


def _idle_and_cores(root: Path) -> tuple[float | None, int | None]:
    lines = lines_of(root / "proc/stat")
    totals = [[int(word) for word in line.split()[1:]] for line in lines if line[:4] == "cpu "]
    cores = sum(bool(re.match("cpu[0-9]", line)) for line in lines)
    if not cores or not any(map(any, totals)):  # some sandboxes show nothing but zeros
        return None, cores or None
    _, _, _, idle, waiting, *_ = totals[0]
    return (idle + waiting) / os.sysconf("SC_CLK_TCK"), cores


def _throttled_s(root: Path) -> float | None:
    """Total seconds for which quotas stopped this process's cgroup or its parents.

    Each group counts only its own quota. In a container the path may be the host's, of which only
    the last folders exist there, so missing files are skipped.
    """
    totals_s = [
        int(words[1]) * THROTTLED_UNITS_S[words[0]]
        for folder in cgroups(root)
        for words in map(str.split, lines_of(folder / "cpu.stat"))
        if words[0] in THROTTLED_UNITS_S
    ]
    return sum(totals_s) if totals_s else None

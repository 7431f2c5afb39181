"""Did something else want this machine's cores while the case was measured?

The system's own counters are read before and after, so what happened earlier counts for nothing.
Standard library only. Linux says all of it; elsewhere most is None.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

WAIT_SHARE = 0.01
"""Of the window: how long the measuring thread may wait for a core, or be held by its quota."""

OTHERS_SHARE = 0.05
"""Of all cores: what others may use. Beyond it they cost caches, memory bandwidth and clock."""

OTHERS_FLOOR_CORES = 0.1
"""Yet this much of one core is housekeeping wherever there are few cores."""

THROTTLED_UNITS_S = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
"""How the two versions of cgroups call it in cpu.stat (kernel documents cgroup-v2, sched-bwc)."""

IDLE_UNIT_S = 0.01
"""In which /proc/stat tells the idle time of a core: what others used is uncertain by as much."""

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Counters:
    """Readings of one moment. None started at zero: only differences mean anything."""

    wall_s: float
    own_s: float  # CPU time of all threads of this process
    waited_s: float | None  # this thread, ready to run but without a core
    involuntary_switches: int | None  # this thread
    idle_s: float | None  # of all cores together
    cores: int | None  # of the machine, whether or not this process may use them
    throttled_s: float | None


@dataclass(frozen=True)
class Contention:
    """What happened between two readings; the names are those of the record's columns."""

    watched_s: float | None
    cpu_wait_s: float | None
    involuntary_switches: int | None
    others_cpu_s: float | None
    machine_cores: int | None
    cgroup_throttled_s: float | None


def read(root: Path = Path("/")) -> Counters:
    """The counters now, of the calling thread and of the machine whose files lie under `root`."""
    idle_s, cores = _idle_and_cores(root)
    return Counters(
        wall_s=time.perf_counter(),
        own_s=time.process_time(),
        waited_s=_waited_s(root),
        involuntary_switches=_involuntary_switches(),
        idle_s=idle_s,
        cores=cores,
        throttled_s=_throttled_s(root),
    )


def between(before: Counters, after: Counters) -> Contention:
    """What happened from `before` to `after`, both read by the same thread.

    What others used is all that the cores did, less this process's part. It includes what a
    hypervisor gave to other guests, and may be off by 10 ms, the unit in which idle time is told.
    """
    wall_s = after.wall_s - before.wall_s
    idle_s = _difference(before.idle_s, after.idle_s)
    others_s = None
    if idle_s is not None and after.cores is not None:
        others_s = max(0.0, wall_s * after.cores - idle_s - (after.own_s - before.own_s))
    return Contention(
        watched_s=wall_s,
        cpu_wait_s=_difference(before.waited_s, after.waited_s),
        involuntary_switches=_difference(before.involuntary_switches, after.involuntary_switches),
        others_cpu_s=others_s,
        machine_cores=after.cores,
        cgroup_throttled_s=_difference(before.throttled_s, after.throttled_s),
    )


def contended(seen: Contention, gpu_processes: int | None = None) -> bool:
    """Whether others had enough of the cores, or of the GPU, to be felt. Unknown is not enough.

    A switch or two is what every system does, so they are recorded and decide nothing; a thread
    that is sent away for long has waited.
    """
    if gpu_processes:
        return True
    if not seen.watched_s:
        return False
    shares = [(each or 0.0) / seen.watched_s for each in (seen.cpu_wait_s, seen.cgroup_throttled_s)]
    surely_s = (seen.others_cpu_s or 0.0) - IDLE_UNIT_S * (seen.machine_cores or 0)
    others_cores = surely_s / seen.watched_s
    allowed_cores = max(OTHERS_SHARE * (seen.machine_cores or 0), OTHERS_FLOOR_CORES)
    return max(shares) > WAIT_SHARE or others_cores > allowed_cores


def quota_cores(root: Path = Path("/")) -> float | None:
    """The CPU time that the narrowest quota allows, in cores; None where there is no quota.

    Of this process's cgroup and those that it lies in (kernel documents cgroup-v2, sched-bwc).
    """
    quotas = [quota for folder in _cgroups(root) for quota in _quota(folder)]
    return min(quotas, default=None)


def _quota(folder: Path) -> Iterator[float]:
    second = [word for line in _lines(folder / "cpu.max") for word in line.split()]
    first = [*_lines(folder / "cpu.cfs_quota_us"), *_lines(folder / "cpu.cfs_period_us")]
    for words in (second, first):
        if len(words) == 2 and words[0] not in ("max", "-1"):
            yield int(words[0]) / int(words[1])


def _difference(before: Number | None, after: Number | None) -> Number | None:
    return None if before is None or after is None else after - before


def _lines(path: Path) -> list[str]:
    """The file's lines; none where it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _waited_s(root: Path) -> float | None:
    """Of "running waited slices" in nanoseconds; a kernel that does not count says "0 0 0"."""
    for line in _lines(root / "proc/thread-self/schedstat"):
        running, waited, _ = map(int, line.split())
        return waited * 1e-9 if running else None
    return None


def _involuntary_switches() -> int | None:
    if sys.platform != "linux":  # only there a thread can be asked for its own
        return None
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _idle_and_cores(root: Path) -> tuple[float | None, int | None]:
    """Idle time, waiting for disks included, and the number of cores (proc(5), /proc/stat)."""
    lines = _lines(root / "proc/stat")
    totals = [[int(word) for word in line.split()[1:]] for line in lines if line[:4] == "cpu "]
    cores = sum(bool(re.match("cpu[0-9]", line)) for line in lines)
    if not cores or not any(map(any, totals)):  # some sandboxes show nothing but zeros
        return None, cores or None
    _, _, _, idle, waiting, *_ = totals[0]
    return (idle + waiting) / os.sysconf("SC_CLK_TCK"), cores


def _throttled_s(root: Path) -> float | None:
    """For how long quotas stopped this process's cgroup or one that it lies in, in all.

    Each counts its own quota only. In a container the path may be one of the host's, of which the
    container sees nothing but the end: what is not there is passed over.
    """
    totals_s = [
        int(words[1]) * THROTTLED_UNITS_S[words[0]]
        for folder in _cgroups(root)
        for words in map(str.split, _lines(folder / "cpu.stat"))
        if words[0] in THROTTLED_UNITS_S
    ]
    return sum(totals_s) if totals_s else None


def _cgroups(root: Path) -> list[Path]:
    """Folders of the cgroups, own one and ancestors, that may limit this process's CPU time."""
    folders = []
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        own = PurePosixPath(path.lstrip("/"))
        mounts = ("", "unified") if number == "0" else ("cpu",)
        if number == "0" or "cpu" in controllers.split(","):
            top = root / "sys/fs/cgroup"
            folders += [top / mount / each for mount in mounts for each in (own, *own.parents)]
    return folders

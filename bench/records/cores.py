"""The cores and the CPU time that this process may use. Standard library only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath


def which_cores() -> list[int]:
    """Numbers of the cores this process may use; all where no system call tells (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def physical_cores(cores: Iterable[int], root: Path = Path("/")) -> list[list[int]]:
    """The given cores, those that are threads of one physical core together.

    Linux often numbers the second threads of all cores after the first ones. Where the system does
    not tell, each core is a physical one.
    """
    together: dict[int, list[int]] = {}
    for core in sorted(cores):
        topology = root / f"sys/devices/system/cpu/cpu{core}/topology"
        siblings = re.findall(r"\d+", " ".join(lines_of(topology / "thread_siblings_list")))
        together.setdefault(min(map(int, siblings), default=core), []).append(core)
    return list(together.values())


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(which_cores())


def quota_cores(root: Path = Path("/")) -> float | None:
    """The CPU time that the narrowest quota allows, in cores; None where there is no quota.

    Reads this process's cgroup and its parents (kernel documents cgroup-v2, sched-bwc).
    """
    quotas = [quota for folder in cgroups(root) for quota in _quota(folder)]
    return min(quotas, default=None)


def _quota(folder: Path) -> Iterator[float]:
    second = [word for line in lines_of(folder / "cpu.max") for word in line.split()]
    first = [*lines_of(folder / "cpu.cfs_quota_us"), *lines_of(folder / "cpu.cfs_period_us")]
    for words in (second, first):
        if len(words) == 2 and words[0] not in ("max", "-1"):
            yield int(words[0]) / int(words[1])


def cgroups(root: Path) -> list[Path]:
    """Folders of the cgroups, own one and ancestors, that may limit this process's CPU time."""
    folders = []
    for line in lines_of(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        own = PurePosixPath(path.lstrip("/"))
        mounts = ("", "unified") if number == "0" else ("cpu",)
        if number == "0" or "cpu" in controllers.split(","):
            top = root / "sys/fs/cgroup"
            folders += [top / mount / each for mount in mounts for each in (own, *own.parents)]
    return folders


def lines_of(path: Path) -> list[str]:
    """The file's lines; none where it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []

"""Says before a sweep whether other programs already use the machine, and which.

A row says so, too (flag `contended`), but only after its minutes are spent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from modescope.bench.records.cpu import lines_of, usable_cores

LOADED = 0.5
"""Load average per core above which programs are looked at: a sweep's own start raises it little,
and looking takes WINDOW_S."""

OVERLOADED = 1.0
"""Load average per core that is told even if no program is seen, as in a container."""

BUSY_CORES = 0.1
"""CPU time per second of all other programs together that is told."""

WINDOW_S = 0.5
MOST_NAMED = 3


def warning(
    load_1min: float | None = None,
    cores: int | None = None,
    root: Path = Path("/"),
    wait: Callable[[float], object] = time.sleep,
) -> str:
    """Returns a line on the load of the machine and the busiest programs; empty if it is quiet.

    `load_1min`, `cores`: the load average and the number of usable cores; None: of this machine.
    `root`: folder that contains /proc. This process and those that it started do not count.
    """
    load = os.getloadavg()[0] if load_1min is None else load_1min
    per_core = load / (cores or usable_cores())
    if per_core <= LOADED:
        return ""
    before = dict(_used_s(root))
    wait(WINDOW_S)
    used = {who: (now_s - before[who]) / WINDOW_S for who, now_s in _used_s(root) if who in before}
    busiest = sorted((who for who in used if used[who] > 0), key=lambda who: -used[who])
    if sum(used.values()) < BUSY_CORES and per_core <= OVERLOADED:
        return ""
    named = [
        f"{name} (process {pid}) {used[pid, name] * 100:.0f} %"
        for pid, name in busiest[:MOST_NAMED]
    ]
    which = f"; of a core use {', '.join(named)}" if named else ""
    return (
        f"warning: the machine is busy: {per_core:.1f} programs per core want to run{which}. "
        "Stop other programs, or speedups may stay undecided"
    )


def _used_s(root: Path) -> Iterator[tuple[tuple[int, str], float]]:
    """Yields (pid, name) and CPU time of each process that is neither this one nor its child."""
    every = dict(_processes(root))
    for pid, (name, _, seconds) in every.items():
        above, seen = pid, {0}
        while above in every and above not in {os.getpid(), *seen}:
            seen.add(above)
            above = every[above][1]
        if above != os.getpid():
            yield (pid, name), seconds


def _processes(root: Path) -> Iterator[tuple[int, tuple[str, int, float]]]:
    """Yields of each process its number, and its name, its parent's number and its CPU time.

    /proc/<pid>/stat is `pid (name) state parent ...`; user and system time are fields 14 and 15,
    in ticks (man proc_pid_stat). A name may contain spaces and parentheses.
    """
    for folder in (root / "proc").glob("[0-9]*"):
        for line in lines_of(folder / "stat")[:1]:
            head, _, rest = line.rpartition(")")
            words = rest.split()
            ticks = int(words[11]) + int(words[12])
            name = head.partition("(")[2]
            yield int(folder.name), (name, int(words[1]), ticks / os.sysconf("SC_CLK_TCK"))

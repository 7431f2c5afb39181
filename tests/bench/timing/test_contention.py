"""Counters from made-up files, with times worked out by hand; and a real load."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.records.columns.timing import Contention
from modescope.bench.stats.diagnostics import is_contended
from modescope.bench.timing import contention
from modescope.bench.timing.contention import Counters, load_between
from modescope.bench.tools.selfcheck.workloads import co_runners
from tests.helpers.paths import machine

TICKS = os.sysconf("SC_CLK_TCK")

STAT = """\
cpu  100 2 30 {idle} {waiting} 0 4 5 6 0
cpu0 50 1 15 200 10 0 2 3 6 0
cpu1 50 1 15 200 10 0 2 2 0 0
intr 12345 0 0
ctxt 99
cpu_of_tomorrow 1
"""


def stat(idle_s: float, waiting_s: float = 0.0) -> str:
    return STAT.format(idle=round(idle_s * TICKS), waiting=round(waiting_s * TICKS))


def test_what_others_used_is_never_negative_and_may_be_unknown() -> None:
    """The differences themselves are shown by tests/seams."""
    usual = Counters(wall_s=10.0, own_s=3.0, waited_s=0.5, idle_s=40.0, cores=4, throttled_s=0.25)
    later = replace(usual, wall_s=11.0, own_s=4.0, idle_s=43.01)  # in units of 10 ms
    assert load_between(usual, later).others_cpu_s == 0.0
    unknown = Counters(1.0, 1.0, None, None, None, None)
    for before, after in ((unknown, usual), (usual, unknown)):
        seen = load_between(before, after)
        assert (seen.cpu_wait_s, seen.others_cpu_s, seen.cgroup_throttled_s) == (None,) * 3


def test_all_counters_are_read_on_linux(tmp_path: Path) -> None:
    files = {
        "proc/thread-self/schedstat": "2000000000 30000000 17\n",
        "proc/stat": stat(idle_s=40.0, waiting_s=2.5),
        # the group and its parents, each with its own quota
        "proc/self/cgroup": "0::/pod/box\n",
        "sys/fs/cgroup/pod/box/cpu.stat": "nr_throttled 3\nthrottled_usec 2000000\n",
        "sys/fs/cgroup/pod/cpu.stat": "throttled_usec 1000000\n",
        "sys/fs/cgroup/cpu.stat": "usage_usec 7\n",
    }
    found = contention.read(machine(tmp_path, files))
    assert found.waited_s == pytest.approx(0.03)
    assert found.idle_s == pytest.approx(42.5)
    assert found.cores == 2
    assert found.throttled_s == pytest.approx(3.0)


def test_counters_that_are_all_zero_are_unknown(tmp_path: Path) -> None:
    """A kernel without scheduler statistics; a sandbox that hides the machine's times."""
    files = {
        "proc/thread-self/schedstat": "0 0 0\n",
        "proc/stat": "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n",
    }
    found = contention.read(machine(tmp_path, files))
    assert (found.waited_s, found.idle_s) == (None, None)
    found = contention.read(tmp_path / "another system")
    assert (found.waited_s, found.idle_s, found.cores, found.throttled_s) == (None,) * 4
    assert min(found.wall_s, found.own_s) > 0


def test_throttling_is_in_nanoseconds_in_the_first_version_of_cgroups(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "9:name=systemd:/elsewhere\n3:cpu,cpuacct:/box\n0::/\n",
        "sys/fs/cgroup/cpu/box/cpu.stat": "nr_throttled 2\nthrottled_time 500000000\n",
        "sys/fs/cgroup/cpu/elsewhere/cpu.stat": "throttled_time 900000000\n",
    }
    assert contention.read(machine(tmp_path, files)).throttled_s == pytest.approx(0.5)


needs_linux = pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(), reason="the counters are Linux's"
)
WATCH_S = 0.4


def watched_while(asleep: bool) -> Contention:
    before = contention.read()
    if asleep:
        time.sleep(WATCH_S)
    end_s = before.wall_s + WATCH_S
    while time.perf_counter() < end_s:
        pass
    return load_between(before, contention.read())


@needs_linux
def test_load_on_another_core_counts_as_cpu_time_of_others() -> None:
    """It takes a core, or the free part of one where others use the machine, too."""
    with co_runners(1):
        seen = watched_while(asleep=True)
    assert seen.watched_s >= WATCH_S
    assert seen.others_cpu_s > 0.3 * seen.watched_s
    assert is_contended(replace(seen, cpu_wait_s=None, machine_cores=2))


@needs_linux
def test_load_on_the_same_core_counts_as_waiting() -> None:
    """Both get about half of the core."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with co_runners(1):
            seen = watched_while(asleep=False)
    finally:
        os.sched_setaffinity(0, allowed)
    assert seen.cpu_wait_s > 0.1 * seen.watched_s
    assert is_contended(replace(seen, others_cpu_s=None))

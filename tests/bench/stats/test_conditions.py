"""Rules for contention and throttling, on made-up counters and clocks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modescope.bench.records.columns import Contention
from modescope.bench.stats.conditions import CLOCK_FALL, contended, throttled

QUIET = Contention(
    watched_s=2.0,
    cpu_wait_s=0.004,
    involuntary_switches=40,
    others_cpu_s=0.05,
    machine_cores=2,
    cgroup_throttled_s=0.0,
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"cpu_wait_s": 0.019}, False),
        ({"cpu_wait_s": 0.021}, True),  # 1 % of 2 s is 0.02 s
        # The idle time of each core is uncertain by 0.01 s.
        ({"others_cpu_s": 0.21}, False),
        ({"others_cpu_s": 0.23}, True),  # of 2 cores 5 % is 0.1 core: 0.2 s in 2 s
        ({"others_cpu_s": 0.20, "machine_cores": 1}, False),  # never less than 0.1 core
        ({"others_cpu_s": 7.0, "machine_cores": 64}, False),  # 5 % of 64 are 3.2 cores
        ({"others_cpu_s": 7.1, "machine_cores": 64}, True),
        ({"cgroup_throttled_s": 0.019}, False),
        ({"cgroup_throttled_s": 0.021}, True),
        ({"involuntary_switches": 10**6}, False),  # switches do not count, waiting does
        ({"watched_s": 1.0}, False),
        ({"watched_s": 0.25}, True),  # the same counts in less time are more
    ],
    ids=str,
)
def test_contention_begins_at_its_thresholds(changes: dict[str, float], expected: bool) -> None:
    assert contended(replace(QUIET, **changes)) is expected  # type: ignore[arg-type]


def test_unknown_counts_are_not_contention() -> None:
    nothing = Contention()
    assert not contended(nothing)
    assert not contended(replace(nothing, watched_s=2.0))
    assert contended(replace(nothing, watched_s=2.0, cpu_wait_s=1.0))


@pytest.mark.parametrize(("processes", "expected"), [(None, False), (0, False), (1, True)])
def test_other_processes_on_the_gpu_are_contention(processes: int | None, expected: bool) -> None:
    assert contended(QUIET, processes) is expected


GHZ = 1e9


@pytest.mark.parametrize(
    ("clocks_ghz", "expected"),
    [
        ((2.0, 2.0, 2.0), False),
        ((2.0, 1.95, 1.95), False),  # 2.5 % lower
        ((2.0, 1.93, 2.0), True),  # 3.5 % lower, if only for a while
        ((2.0, 2.0, 1.93), True),
        ((1.2, 1.98, 1.98), False),  # the clock rose from idle
        ((1.2, 1.98, 1.9), True),  # rose from idle and fell: the first reading is ignored
        ((2.0, 1.96, 1.92), True),  # 4 % lower in two steps
        ((2.0,), False),
        ((), False),
        (None, False),
    ],
)
def test_a_clock_rate_that_falls_by_3_percent_is_throttled(
    clocks_ghz: tuple[float, ...] | None, expected: bool
) -> None:
    assert CLOCK_FALL == 0.03
    clocks_hz = None if clocks_ghz is None else tuple(each * GHZ for each in clocks_ghz)
    assert throttled(clocks_hz, None) is expected
    assert throttled(clocks_hz, ()) is expected
    assert throttled(clocks_hz, ("sw_power_cap",))

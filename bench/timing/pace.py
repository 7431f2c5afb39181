"""The machine's pace: the time of a fixed piece of work, read in the same rounds as the steps.

Virtual cores may change their speed by half within milliseconds. Durations from two rows of results
can be compared once each is divided by the pace in its own rounds.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from typing import Any

from modescope.bench.devices import processor
from modescope.bench.devices.devices import Device, Step
from modescope.bench.records import files
from modescope.bench.records.cases import short_hash
from modescope.bench.stats.diagnostics import pace_ends_s
from modescope.bench.stats.estimates import MIN_ROUNDS
from modescope.bench.timing.rounds import Clock, Side
from modescope.bench.timing.timers import Timing

ITERATIONS = 1000  # about 20 µs of integer arithmetic in the interpreter
CALLS = 5  # of which the median counts

BEST = "paces.json"
"""A file in results_dir: the shortest time of the work on each machine. A study may run at another
pace as a whole, which its own rows cannot show."""


def work() -> None:
    """Does a fixed number of additions in Python; its data fit into the first-level cache."""
    total = 0
    for number in repeat(1, ITERATIONS):
        total += number


def clock(step: Step = work) -> Clock:
    """Returns a clock that times `step`, which must be the same in all results to be compared."""
    return Clock("pace", (Side(step, time_of, CALLS, settling_calls=1),))


def time_of(step: Step, device: Device, calls: int) -> Timing:
    """Times calls on the host without waiting for the device. One sample per call."""
    now = device.clock
    samples = []
    for _ in repeat(None, calls):
        start = now()
        step()
        samples.append(now() - start)
    return Timing(tuple(samples))


def best_s(paces_s: Sequence[float] | None, file: Path) -> float | None:
    """Returns the machine's best pace: the shortest time of `work` in this run or earlier ones.

    `paces_s`: its times in this run's rounds, in seconds, of which the 5th percentile counts.
    `file` holds the best of earlier runs by machine, and is updated if this run was faster. None if
    this run has fewer than MIN_ROUNDS rounds, or a time that is not positive.
    """
    ends_s = pace_ends_s(paces_s)
    if paces_s is None or ends_s is None or len(paces_s) < MIN_ROUNDS:
        return None
    machine = short_hash({**asdict(processor.read()), "python": platform.python_version()})
    known = _read_file(file)
    best = min(ends_s[0], known.get(machine, ends_s[0]))
    if known.get(machine) != best:
        with suppress(OSError), files.atomic_write(file) as partial:
            partial.write_text(json.dumps(known | {machine: best}, indent=1), encoding="utf-8")
    return best


def _read_file(file: Path) -> dict[str, float]:
    try:
        entries: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return {machine: float(pace_s) for machine, pace_s in entries.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}

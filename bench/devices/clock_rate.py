"""The device's clock, its slowdowns and other processes on it while a case is measured.

Read at a few moments between timed blocks, never within one. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from modescope.bench.records.columns import DeviceState


class Observable(Protocol):
    """A device that reports the conditions it works under; None where one is unknown."""

    def clock_hz(self) -> float | None:
        """Its present clock in cycles per second."""

    def slowdowns(self) -> Mapping[str, int] | None:
        """Counts of slowdowns by reason; only their growth has a meaning."""

    def other_processes(self) -> int | None:
        """The number of other processes that compute on it."""


@dataclass(frozen=True)
class Sample:
    """The conditions at one moment."""

    clock_hz: float | None
    slowdowns: Mapping[str, int] | None
    other_processes: int | None


def sample(device: Observable) -> Sample:
    """The present conditions of `device`, which must have no work queued."""
    slowdowns = device.slowdowns()  # first, because reasons disappear on an idle device
    return Sample(device.clock_hz(), slowdowns, device.other_processes())


def course(samples: Sequence[Sample]) -> DeviceState:
    """All clock readings, new slowdown reasons, most processes; null where a sample has none."""
    clocks = [each.clock_hz for each in samples if each.clock_hz is not None]
    counts = [each.slowdowns for each in samples if each.slowdowns is not None]
    others = [each.other_processes for each in samples if each.other_processes is not None]
    complete = len(samples)
    return DeviceState(
        device_clock_hz=tuple(clocks) if len(clocks) == complete else None,
        throttle_reasons=_grown(counts[0], counts[-1]) if len(counts) == complete else None,
        gpu_processes=max(others) if len(others) == complete else None,
    )


def _grown(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(name for name, count in after.items() if count > before.get(name, 0))

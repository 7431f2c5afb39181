"""Did the device keep its pace while the case was measured, and have the GPU to itself?

Asked at a few moments between the timed blocks, never within one. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

CLOCK_FALL = 0.03
"""A clock lower by more than this was lowered. Boost clocks move in steps of 15 MHz (nvidia-smi -q
-d SUPPORTED_CLOCKS), 0.75 % of 2 GHz, so up to four of them pass; the reading is good to 0.1 %."""


class Observable(Protocol):
    """What a device can say of the conditions it works under."""

    def clock_hz(self) -> float | None:
        """Its cycles per second, now; None where that takes privileges."""
        ...

    def slowdowns(self) -> Mapping[str, int] | None:
        """How often it was slowed down for each reason, counted from any start.

        Only growth means anything. None where it does not say.
        """
        ...

    def other_processes(self) -> int | None:
        """How many other processes compute on it; None where it does not say."""
        ...


@dataclass(frozen=True)
class Sample:
    """What a device said at one moment."""

    clock_hz: float | None
    slowdowns: Mapping[str, int] | None
    other_processes: int | None


@dataclass(frozen=True)
class Course:
    """What several samples say together; the names are those of the record's columns."""

    device_clock_hz: tuple[float, ...] | None
    throttle_reasons: tuple[str, ...] | None
    gpu_processes: int | None


def sample(device: Observable) -> Sample:
    """Asks `device`, which has no work queued, about this moment.

    Reasons come first: they fade on an idle device.
    """
    slowdowns = device.slowdowns()
    return Sample(device.clock_hz(), slowdowns, device.other_processes())


def course(samples: Sequence[Sample]) -> Course:
    """The clock at each moment, the reasons that came up after the first, the most neighbours.

    Takes one sample or more. Null where any of them knows nothing.
    """
    clocks = [each.clock_hz for each in samples if each.clock_hz is not None]
    counts = [each.slowdowns for each in samples if each.slowdowns is not None]
    others = [each.other_processes for each in samples if each.other_processes is not None]
    complete = len(samples)
    return Course(
        device_clock_hz=tuple(clocks) if len(clocks) == complete else None,
        throttle_reasons=_grown(counts[0], counts[-1]) if len(counts) == complete else None,
        gpu_processes=max(others) if len(others) == complete else None,
    )


def throttled(
    device_clock_hz: Sequence[float] | None, throttle_reasons: Sequence[str] | None
) -> bool:
    """Whether the device was slowed down: by its own word, or because its clock fell.

    A reading is compared with the highest before it, not with the first: a GPU that had nothing to
    do wakes at a low clock. Unknown is not slowed down.
    """
    if throttle_reasons is not None and len(throttle_reasons):
        return True
    readings = [] if device_clock_hz is None else list(device_clock_hz)
    highest = accumulate(readings, max)
    return any(now < (1 - CLOCK_FALL) * high for now, high in zip(readings, highest, strict=True))


def _grown(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(name for name, count in after.items() if count > before.get(name, 0))

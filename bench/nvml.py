"""What does NVIDIA's management library know of a GPU? A bonus: without it, all is None.

It comes with the driver; nvidia-ml-py (`pip install -e '.[cuda]'`) makes it callable as `pynvml`.
Nothing here changes a setting.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

CLOCK_REASONS = {
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}
"""Those of nvmlClocksEventReasons (nvml.h) that slow down work. The others are an idle GPU, and
clocks that a user, a group of GPUs or a display has set."""

ASKED_BY = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""Today's name, and the one that older drivers know and newer ones are to drop."""

Answer = TypeVar("Answer")


def clock_reasons(nvidia_id: str) -> tuple[str, ...] | None:
    """Why the GPU called `nvidia_id` ("GPU-...") runs slower than it could at this moment.

    () where nothing slows it down; None where it cannot be asked.
    """
    for name in ASKED_BY:
        bits = _asked(nvidia_id, partial(_bits, name))
        if bits is not None:
            return tuple(reason for bit, reason in CLOCK_REASONS.items() if bits & bit)
    return None


def _bits(function: str, nvml: Any, gpu: Any) -> int:
    return int(getattr(nvml, function)(gpu))


def other_processes(nvidia_id: str) -> int | None:
    """How many processes other than this one have a compute context on that GPU.

    This process must have one, too. Where it is not in the list, as in a container whose process
    ids are not the driver's, the list says nothing about the others either: None.
    """

    def pids(nvml: Any, gpu: Any) -> set[int]:
        return {int(process.pid) for process in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)}

    found = _asked(nvidia_id, pids)
    return len(found) - 1 if found and os.getpid() in found else None


def _asked(nvidia_id: str, question: Callable[[Any, Any], Answer]) -> Answer | None:
    """The answer to `question(pynvml, gpu)`; None where the library, driver or GPU has none."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()  # NVML counts: once loaded, this is free, and it is unloaded with us
        return question(nvml, nvml.nvmlDeviceGetHandleByUUID(nvidia_id))
    except Exception:  # whatever goes wrong in somebody else's library, the measurement goes on
        return None

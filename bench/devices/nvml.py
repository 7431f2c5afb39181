"""Reads a GPU's state from NVIDIA's management library (NVML). Without it, all is None.

The library comes with the driver. nvidia-ml-py (`pip install -e '.[cuda]'`) makes it callable as
`pynvml`. Nothing here changes a setting.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

CLOCK_REASONS = {
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}
"""The bits of nvmlClocksEventReasons (nvml.h) that mean that work is slowed down. The other bits
are an idle GPU, and clocks set by a user, a group of GPUs or a display."""

QUERIES = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""The function's present name, and its name in older drivers, which newer ones will drop."""

KINDS = "GPU", "MIG"
"""What the ids of whole GPUs and of parts of one begin with."""

T = TypeVar("T")


def id_of(uuid: str) -> str:
    """Returns the id of the device with this uuid, as `nvidia-smi -L` lists it.

    CUDA tells the uuid of a part of a GPU (MIG) without its kind (cuDeviceGetUuid_v2). What NVML
    does not know counts as a whole GPU.
    """
    ids = [f"{kind}-{uuid}" for kind in KINDS]
    known = (name for name in ids if _read(name, lambda nvml, gpu: True))
    return next(known, ids[0])


def clock_reasons(nvidia_id: str) -> tuple[str, ...] | None:
    """Returns why the GPU with this NVML id is slowed down now: () if not, None if unknown."""
    for name in QUERIES:
        bits = _read(nvidia_id, partial(_bits, name))
        if bits is not None:
            return tuple(reason for bit, reason in CLOCK_REASONS.items() if bits & bit)
    return None


def _bits(function: str, nvml: Any, gpu: Any) -> int:
    return int(getattr(nvml, function)(gpu))


def other_processes(nvidia_id: str) -> int | None:
    """Counts the processes that compute on the GPU, except this process and its ancestors.

    An ancestor waits for this process, such as a notebook that holds a model on the GPU. None if
    the driver's list lacks this process: because it does not use the GPU, or because process ids in
    a container differ from the driver's.
    """
    pids = _read(
        nvidia_id,
        lambda nvml, gpu: {int(p.pid) for p in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)},
    )
    own = os.getpid()
    return len(pids.difference(_ancestry(own))) if pids and own in pids else None


def _ancestry(pid: int) -> Iterator[int]:
    while pid:
        yield pid
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return


def _read(nvidia_id: str, function: Callable[[Any, Any], T]) -> T | None:
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()  # reference-counted: cheap once loaded, and unloaded with this process
        return function(nvml, nvml.nvmlDeviceGetHandleByUUID(nvidia_id))
    except Exception:  # whatever goes wrong in this optional library, the measurement goes on
        return None

"""A stand-in for NVIDIA's library: its readings, and every way in which it fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest

from modescope.bench.devices import nvml

GPU = "GPU-0a-1b"
CURRENT, FORMER = nvml.QUERIES


class Refused(Exception):
    """Like pynvml.NVMLError, which derives from Exception directly."""


def pretend(monkeypatch: pytest.MonkeyPatch, **functions: Callable[[], object]) -> SimpleNamespace:
    """A `pynvml` with one GPU and these functions, which fail before nvmlInit."""
    initialised: list[bool] = []

    def handle(uuid: str) -> object:
        if not initialised or uuid != GPU:
            raise Refused("Not Found")
        return "handle"

    answers = {
        name: lambda device, function=function: function() if device == "handle" else refuses()
        for name, function in functions.items()
    }
    init = partial(initialised.append, True)
    module = SimpleNamespace(nvmlInit=init, nvmlDeviceGetHandleByUUID=handle, **answers)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def refuses() -> object:
    raise Refused("Not Supported")


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0x1 | 0x2 | 0x10 | 0x100, ()),  # idle, clocks as somebody set them: no slowdown of work
        (0x8 | 0x20 | 0x80, ("hw_slowdown", "sw_thermal", "hw_power_brake")),
        (0x1 | 0x4 | 0x40, ("sw_power_cap", "hw_thermal")),
    ],
)
def test_throttle_reasons_are_named(
    bits: int, reasons: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older driver has the former function alone."""
    pretend(monkeypatch, **{CURRENT: lambda: bits})
    assert nvml.clock_reasons(GPU) == reasons
    pretend(monkeypatch, **{CURRENT: refuses, FORMER: lambda: bits})
    assert nvml.clock_reasons(GPU) == reasons


def test_a_part_of_a_gpu_has_an_id_of_its_own_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)  # which knows one id
    kind, _, uuid = GPU.partition("-")
    assert nvml.id_of(uuid) == GPU
    monkeypatch.setattr(nvml, "KINDS", ("GPU", "MIG"))
    assert nvml.id_of("of-another-machine") == "GPU-of-another-machine"
    monkeypatch.setattr(nvml, "KINDS", ("whole", kind))  # the first of which it does not know
    assert nvml.id_of(uuid) == GPU


def processes(*pids: int) -> Callable[[], object]:
    return lambda: [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in pids]


OWN = os.getpid()
PARENT = os.getppid() or OWN  # 0 for the first process of a container
STRANGER = OWN + 1


@pytest.mark.parametrize(
    ("pids", "others"),
    [
        ((OWN,), 0),
        ((OWN, STRANGER, STRANGER), 1),  # one process, two contexts
        ((OWN, PARENT, STRANGER), 1),  # such as a notebook, which waits for its child
        ((STRANGER,), None),  # this process is missing: the ids are of another namespace
        ((), None),
    ],
)
def test_other_processes_on_the_gpu(
    pids: tuple[int, ...], others: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, nvmlDeviceGetComputeRunningProcesses=processes(*pids))
    assert nvml.other_processes(GPU) == others


def both(nvidia_id: str = GPU) -> tuple[object, object]:
    return nvml.clock_reasons(nvidia_id), nvml.other_processes(nvidia_id)


def test_readings_that_cannot_be_had_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    running = "nvmlDeviceGetComputeRunningProcesses"
    module = pretend(monkeypatch, **{CURRENT: lambda: 0x4, running: processes(OWN)})
    assert both() == (("sw_power_cap",), 0)
    assert both("GPU-of-another-machine") == (None, None)
    monkeypatch.setattr(module, "nvmlInit", refuses)  # without a driver
    assert both() == (None, None)
    pretend(monkeypatch, **{CURRENT: refuses, FORMER: refuses, running: refuses})
    assert both() == (None, None)
    monkeypatch.setitem(sys.modules, "pynvml", None)  # as if it were not installed
    assert both() == (None, None)

"""Finding a device, its facts and conditions, and CUDA's sequences of calls on a simulated GPU."""

from __future__ import annotations

import gc
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import torch

from modescope.bench.devices import nvml, processor
from modescope.bench.devices.cuda import Cuda, CudaMark, find
from modescope.bench.devices.devices import (
    Conditions,
    Cpu,
    Device,
    Hardware,
    Mark,
    Observable,
    device_state,
    read_conditions,
)
from modescope.bench.records.columns import DeviceState
from modescope.bench.records.errors import UsageError
from modescope.bench.stats.diagnostics import throttled
from tests.helpers.simulated import SimulatedDevice, SimulatedMark

CYCLES_PER_S = 2e9
LAUNCH_S = 3e-6


class Gpu:
    """Stands in for torch.cuda: a log of calls, and a queue in simulated seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.log: list[str] = []
        self.now_s = 0.0
        self.clock_hz = CYCLES_PER_S
        self.interrupted_s: dict[int, float] = {}  # which spin, from 0, takes longer
        self.spins = 0
        self.stream = "main"
        gpu = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at_s = gpu.now_s

            def query(self) -> bool:
                return True

            def elapsed_time(self, later: Event) -> float:
                return (later.at_s - self.at_s) * 1e3  # milliseconds

        class Stream:
            def wait_stream(self, other: object) -> None:
                gpu.log.append("side waits")

        class Graph:
            def replay(self) -> None:
                gpu.log.append("replay")

        @contextmanager
        def on_stream(stream: Stream) -> Iterator[None]:
            gpu.stream = "side"
            yield
            gpu.stream = "main"

        @contextmanager
        def capturing(graph: Graph) -> Iterator[None]:
            gpu.stream = "capture"
            yield
            gpu.stream = "main"

        def sleep(cycles: int) -> None:
            gpu.log.append("spin")
            gpu.now_s += LAUNCH_S + cycles / gpu.clock_hz + gpu.interrupted_s.get(gpu.spins, 0.0)
            gpu.spins += 1

        properties = SimpleNamespace(
            name="Pretended", major=9, minor=0, total_memory=2**30, uuid="0a-1b"
        )
        for name, value in {
            "is_available": lambda: count > 0,
            "device_count": lambda: count,
            "set_device": lambda index: gpu.log.append(f"set {index}"),
            "get_device_properties": lambda device: properties,
            "synchronize": lambda: gpu.log.append("synchronize"),
            "Event": Event,
            "Stream": Stream,
            "CUDAGraph": Graph,
            "current_stream": lambda: SimpleNamespace(
                wait_stream=lambda other: gpu.log.append("main waits")
            ),
            "stream": on_stream,
            "graph": capturing,
            "_sleep": sleep,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    return Gpu(monkeypatch, count=2)


def names(protocol: type) -> set[str]:
    """Attributes and methods of a protocol, inherited ones included."""
    return {
        name
        for each in protocol.__mro__[:-1]
        if getattr(each, "_is_protocol", False)
        for name in {*vars(each), *getattr(each, "__annotations__", {})}
        if not name.startswith("_")
    }


def test_protocols_have_the_expected_members() -> None:
    assert names(Device) == {"type", "queues", "clock", "synchronize", "hold", "mark"}
    assert names(Observable) == {"clock_hz", "slowdowns", "other_processes"}
    assert names(Hardware) > names(Device) | names(Observable) | {"torch_device", "facts"}


def test_every_device_implements_the_protocols(gpu: Gpu) -> None:
    for device in (Cpu(), Cuda(0)):
        assert {name for name in names(Hardware) if not hasattr(device, name)} == set()
    simulated = SimulatedDevice()
    asked = names(Device) | names(Observable)
    assert {name for name in asked if not hasattr(simulated, name)} == set()
    for mark in (CudaMark(), SimulatedMark(simulated, 0.0)):
        assert {name for name in names(Mark) if not hasattr(mark, name)} == set()


def test_a_cpu_is_always_found() -> None:
    device = find("cpu")
    assert isinstance(device, Cpu)
    assert (device.type, device.queues, device.nvidia_id) == ("cpu", False, None)
    assert device.torch_device == torch.device("cpu")
    start = device.clock()
    time.sleep(0.002)
    device.synchronize()
    assert 0.002 <= device.clock() - start < 1.0


def test_facts_of_a_cpu() -> None:
    facts = Cpu().facts()
    assert (facts.type, facts.capability, facts.compute_capability) == ("cpu", None, None)
    assert facts.name
    assert facts.memory_bytes is None or 2**27 < facts.memory_bytes < 2**50


def test_unknown_facts_stay_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> NoReturn:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", unknown)
    monkeypatch.setattr(processor, "name", lambda: None)
    assert processor.host_memory_bytes() is None
    assert Cpu().facts().name == "unknown CPU"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc/meminfo")
def test_memory_is_read_from_the_kernels_counters() -> None:
    total_kib = re.search(r"^MemTotal: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert processor.host_memory_bytes() == int(total_kib[1]) * 1024


@pytest.mark.parametrize(
    ("ask", "arguments"),
    [
        ("hold", (1.0,)),
        ("mark", ()),
        ("capture", (lambda: None,)),
        ("make_graph", (torch.nn.Identity(), (torch.ones(1),))),
    ],
)
def test_a_cpu_refuses_operations_that_need_a_queue(ask: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(AssertionError, match="a CPU"):
        getattr(Cpu(), ask)(*arguments)


def test_auto_selects_the_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    Gpu(monkeypatch, count=0)
    assert find("auto").type == "cpu"
    Gpu(monkeypatch, count=1)
    assert find("auto").type == "cuda"


@pytest.mark.parametrize(("name", "index"), [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)])
def test_a_gpu_is_found_by_its_index(name: str, index: int, gpu: Gpu) -> None:
    device = find(name)
    assert device.torch_device == torch.device("cuda", index)
    assert gpu.log == [f"set {index}"]
    assert device.queues
    assert device.nvidia_id == "GPU-0a-1b"
    facts = device.facts()
    assert (facts.type, facts.name, facts.capability) == ("cuda", "Pretended", (9, 0))
    assert facts.compute_capability == "9.0"
    assert facts.memory_bytes == 2**30


@pytest.mark.parametrize(
    "name",
    [
        "gpu",
        "",
        "CPU",
        "cpu:0",
        "auto:1",
        "cuda:",
        "cuda:-1",
        "cuda:x",
        "cuda:1:2",
        "cuda:²",
        "cuda1",
    ],
)
@pytest.mark.parametrize("count", [0, 2])
def test_other_names_are_refused(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Gpu(monkeypatch, count)
    with pytest.raises(UsageError, match="allowed are auto, cpu, cuda and cuda:<index>") as refused:
        find(name)
    assert str(refused.value).startswith(f"device={name}: ")


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_without_cuda_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Gpu(monkeypatch, count=0)
    with pytest.raises(UsageError, match=rf"device={name}: .* finds no CUDA GPU here"):
        find(name)


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_an_amd_gpu_is_refused_and_its_cpu_is_not(
    name: str, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    with pytest.raises(UsageError, match="AMD GPUs"):
        find(name)
    assert find("cpu").type == "cpu"


def test_a_gpu_index_out_of_range_is_refused(gpu: Gpu) -> None:
    with pytest.raises(UsageError, match=r"device=cuda:2: this machine has 2 GPU\(s\)"):
        find("cuda:2")
    assert gpu.log == []


def test_marks_give_seconds(gpu: Gpu) -> None:
    device = Cuda(0)
    begin = device.mark()
    gpu.now_s += 0.25
    end = device.mark()
    assert end.seconds_since(begin) == pytest.approx(0.25)
    assert begin.reached()


@pytest.mark.parametrize("seconds", [1e-4, 0.3])
def test_hold_lasts_for_the_requested_time(seconds: float, gpu: Gpu) -> None:
    """The clock rate is the slope between two spins, so a launch's cost is no part of it."""
    device = Cuda(0)
    device.hold(0.0)
    before = gpu.now_s
    device.hold(seconds)
    assert gpu.now_s - before == pytest.approx(seconds + LAUNCH_S, rel=1e-6)


def test_the_clock_is_a_slope_between_spins(gpu: Gpu) -> None:
    device = Cuda(0)
    gpu.log.clear()
    assert device.clock_hz() == pytest.approx(CYCLES_PER_S, rel=1e-9)
    # The first spin of each slope keeps the GPU busy until the other two are queued behind it.
    assert gpu.log == ["synchronize", "spin", "spin", "spin", "synchronize"] * Cuda.SLOPES


@pytest.mark.parametrize("spin", range(3 * Cuda.SLOPES))
def test_an_interrupted_spin_does_not_change_the_clock_rate(spin: int, gpu: Gpu) -> None:
    gpu.interrupted_s[spin] = 0.01
    assert Cuda(0).clock_hz() == pytest.approx(CYCLES_PER_S, rel=1e-9)


def test_a_falling_clock_rate_is_recorded_and_used_by_hold(gpu: Gpu) -> None:
    device = Cuda(0)
    samples = [read_conditions(device)]
    gpu.clock_hz = 0.8 * CYCLES_PER_S
    samples.append(read_conditions(device))
    seen = device_state(samples)
    assert seen.device_clock_hz == pytest.approx((CYCLES_PER_S, 0.8 * CYCLES_PER_S))
    assert throttled(seen.device_clock_hz, seen.throttle_reasons)
    before_s = gpu.now_s
    device.hold(0.1)
    assert gpu.now_s - before_s == pytest.approx(0.1 + LAUNCH_S, rel=1e-6)


def test_a_gpu_queries_nvml_by_its_own_id(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    own = "GPU-0a-1b"
    reasons = iter([("hw_thermal",), (), ("sw_power_cap", "hw_thermal"), None])
    monkeypatch.setattr(nvml, "clock_reasons", lambda name: next(reasons) if name == own else ())
    monkeypatch.setattr(nvml, "other_processes", lambda name: 3 if name == own else 0)
    device = Cuda(0)
    assert device.other_processes() == 3
    counts = [device.slowdowns() for _ in range(4)]
    assert counts == [
        {"hw_thermal": 1},
        {"hw_thermal": 1},
        {"hw_thermal": 2, "sw_power_cap": 1},
        None,
    ]


def throttle_counts(folder: Path, **counts: int) -> Path:
    """The kernel's counters; of a name, the part before `_` is the core's."""
    for name, count in counts.items():
        core, _, kind = name.partition("_")
        file = folder / core / "thermal_throttle" / f"{kind}_throttle_count"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{count}\n")
    return folder


def test_thermal_throttling_is_summed_over_cores_and_packages(tmp_path: Path) -> None:
    assert processor.throttle_count(tmp_path) is None
    folder = throttle_counts(tmp_path, cpu0_core=2, cpu0_package=3, cpu11_core=40)
    assert processor.throttle_count(folder) == 45
    (folder / "cpu11/thermal_throttle/core_max_time_ms").write_text("900\n")
    (folder / "cpufreq").mkdir()
    assert processor.throttle_count(folder) == 45
    (folder / "cpu11/thermal_throttle/core_throttle_count").write_text("offline\n")
    assert processor.throttle_count(folder) is None


def test_a_cpu_reports_thermal_throttling_where_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([5, 5, 7, None])
    monkeypatch.setattr(processor, "throttle_count", lambda: next(counts))
    samples = [read_conditions(Cpu()) for _ in range(4)]
    assert device_state(samples[:2]).throttle_reasons == ()
    assert device_state(samples[:3]).throttle_reasons == ("cpu_thermal",)
    assert device_state(samples).throttle_reasons is None
    assert device_state(samples[:3]).device_clock_hz is None
    assert device_state(samples[:3]).gpu_processes is None


def test_no_garbage_is_collected_while_a_module_is_captured(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_graph(module: torch.nn.Module, inputs: object, **options: bool) -> torch.nn.Module:
        assert not gc.isenabled()
        return module

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", make_graph)
    module = torch.nn.Identity()
    assert Cuda(0).make_graph(module, ()) is module
    assert gc.isenabled()


def test_a_capture_warms_up_on_a_side_stream_and_replays(gpu: Gpu) -> None:
    gpu.log.clear()
    device = Cuda(0)
    gpu.log.clear()

    def step() -> str:
        gpu.log.append(f"step on {gpu.stream}{'' if gc.isenabled() else ', uncollected'}")
        return "output"

    replay = device.capture(step)
    warm_ups = ["step on side"] * Cuda.CAPTURE_WARM_UPS
    assert Cuda.CAPTURE_WARM_UPS >= 3
    assert gpu.log == ["side waits", *warm_ups, "main waits", "step on capture, uncollected"]
    assert gc.isenabled()
    gpu.log.clear()
    assert replay() == "output"
    assert gpu.log == ["replay"]


def after(device: SimulatedDevice, seconds: float) -> Conditions:
    device.now_s = seconds
    return read_conditions(device)


@pytest.mark.parametrize(("fall", "expected"), [(0.0, False), (0.02, False), (0.1, True)])
def test_a_device_that_slows_down_is_recorded(fall: float, expected: bool) -> None:
    device = SimulatedDevice(slowdown=lambda now_s: 1.0 if now_s < 5 else 1 / (1 - fall))
    seen = device_state([after(device, at_s) for at_s in (0.0, 4.0, 8.0)])
    clock = SimulatedDevice.CLOCK_HZ
    assert seen.device_clock_hz == pytest.approx((clock, clock, (1 - fall) * clock))
    assert (seen.throttle_reasons, seen.gpu_processes) == (None, None)
    assert throttled(seen.device_clock_hz, seen.throttle_reasons) is expected


def test_without_a_readable_clock_the_rate_is_unknown() -> None:
    seen = device_state([read_conditions(SimulatedDevice(queues=False))] * 3)
    assert seen == DeviceState()
    assert not throttled(seen.device_clock_hz, seen.throttle_reasons)


Counts = Mapping[str, int]


@pytest.mark.parametrize(
    ("counts", "reasons"),
    [
        ([{}, {}, {}], ()),
        ([{"cpu_thermal": 7}, {"cpu_thermal": 7}], ()),  # since boot, not now
        ([{"cpu_thermal": 7}, {"cpu_thermal": 9}], ("cpu_thermal",)),
        ([{}, {"sw_power_cap": 1}, {"sw_power_cap": 1, "hw_slowdown": 1}],
         ("sw_power_cap", "hw_slowdown")),
        ([{"sw_power_cap": 1}, {"sw_power_cap": 1}], ()),  # before, and never again
        ([{}, None, {"sw_power_cap": 1}], None),  # a failed reading may hide a reason
        ([None, None], None),
    ],
    ids=str,
)  # fmt: skip
def test_throttle_reasons_are_collected(
    counts: list[Counts | None], reasons: tuple[str, ...] | None
) -> None:
    assert (
        device_state([Conditions(None, each, None) for each in counts]).throttle_reasons == reasons
    )


@pytest.mark.parametrize(
    ("others", "most"), [((0, 0, 0), 0), ((0, 2, 1), 2), ((0, None, 1), None), ((None,), None)]
)
def test_the_largest_number_of_other_processes_is_recorded(
    others: tuple[int | None, ...], most: int | None
) -> None:
    assert device_state([Conditions(None, None, each) for each in others]).gpu_processes == most


def test_a_clock_rate_missing_once_is_unknown() -> None:
    readings = [Conditions(2e9, None, None), Conditions(None, None, None)]
    assert device_state(readings).device_clock_hz is None

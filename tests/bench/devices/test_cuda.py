"""CUDA's sequences of calls on a simulated GPU, and the choice of a device."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from modescope.bench.devices import cuda, nvml
from modescope.bench.devices.cuda import Cuda, find, use_device
from modescope.bench.devices.devices import device_state, read_conditions
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.errors import UsageError
from modescope.bench.stats.diagnostics import is_throttled

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
        self.streams: list[object] = []
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
            def __init__(self) -> None:
                gpu.streams.append(self)

            def wait_stream(self, other: object) -> None:
                gpu.log.append("side waits")

        class Graph:
            def replay(self) -> None:
                gpu.log.append("replay")

        @contextmanager
        def on_stream(stream: Stream) -> Iterator[None]:
            gpu.stream = f"side {gpu.streams.index(stream)}"
            yield
            gpu.stream = "main"

        @contextmanager
        def capturing(graph: Graph, stream: Stream) -> Iterator[None]:
            gpu.stream = f"capture on {gpu.streams.index(stream)}"
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


@pytest.mark.parametrize(("name", "index"), [("auto", 0), ("cuda", 0), ("cuda:1", 1)])
def test_a_gpu_is_found_by_its_index(name: str, index: int, gpu: Gpu) -> None:
    device = find(name)
    assert device.torch_device == torch.device("cuda", index)
    assert gpu.log == [f"set {index}"]
    assert (device.queues, device.nvidia_id) == (True, "GPU-0a-1b")
    assert device.facts() == DeviceFacts("cuda", "Pretended", (9, 0), 2**30)
    assert find("cpu").type == "cpu"


@pytest.mark.parametrize(
    ("name", "gpus", "hip", "reason"),
    [
        *((name, 2, None, "allowed are auto") for name in ("gpu", "cuda:-1", "cuda:²")),
        ("cuda", 0, None, "no CUDA GPU"),
        ("cuda:2", 2, None, "2 GPU"),
        ("auto", 2, "6.4", "AMD GPUs"),
    ],
)
def test_a_device_that_cannot_be_used_is_refused(
    name: str, gpus: int, hip: str | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu(monkeypatch, gpus)
    monkeypatch.setattr(torch.version, "hip", hip)
    with pytest.raises(UsageError, match=f"^device={name}: .*{reason}"):
        find(name)
    assert gpu.log == []


def test_hold_lasts_for_the_requested_time(gpu: Gpu) -> None:
    """The clock rate is the slope between two spins, so a launch's cost is no part of it."""
    device = Cuda(0)
    device.hold(0.0)
    before = gpu.now_s
    device.hold(0.3)
    assert gpu.now_s - before == pytest.approx(0.3 + LAUNCH_S, rel=1e-6)


@pytest.mark.parametrize("spin", range(3))
def test_an_interrupted_spin_does_not_change_the_clock_rate(spin: int, gpu: Gpu) -> None:
    """The first spin of each slope keeps the GPU busy until the other two are queued behind it."""
    gpu.interrupted_s[spin] = 0.01
    device = Cuda(0)
    gpu.log.clear()
    assert device.clock_hz() == pytest.approx(CYCLES_PER_S, rel=1e-9)
    assert gpu.log == ["synchronize", "spin", "spin", "spin", "synchronize"] * Cuda.SLOPES


def test_a_falling_clock_rate_is_recorded_and_used_by_hold(gpu: Gpu) -> None:
    device = Cuda(0)
    before = read_conditions(device)
    gpu.clock_hz = 0.8 * CYCLES_PER_S
    seen = device_state(before, read_conditions(device))
    assert seen.device_clock_hz == pytest.approx((CYCLES_PER_S, 0.8 * CYCLES_PER_S))
    assert is_throttled(seen.device_clock_hz, seen.throttle_reasons)
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


def test_a_capture_warms_up_on_its_stream_and_replays(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Cuda(0)
    gpu.log.clear()

    def step() -> str:
        gpu.log.append(f"step on {gpu.stream}{'' if gc.isenabled() else ', uncollected'}")
        return "output"

    monkeypatch.setattr(
        torch._C, "_cuda_clearCublasWorkspaces", lambda: gpu.log.append("dropped"), raising=False
    )
    assert Cuda.CAPTURE_WARM_UPS >= 3
    for stream in range(2):  # a graph has one of its own
        replay = device.capture(step)
        warm_ups = [f"step on side {stream}"] * Cuda.CAPTURE_WARM_UPS
        captured = f"step on capture on {stream}, uncollected"
        assert gpu.log == ["side waits", *warm_ups, "main waits", "dropped", captured]
        gpu.log.clear()
    assert gc.isenabled()
    gpu.log.clear()
    assert replay() == "output"
    assert gpu.log == ["replay"]


class Process:
    """Torch's functions in a process on a machine with GPUs; None: it has used none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, current: int | None) -> None:
        self.current = current
        for name, value in {
            "is_initialized": lambda: self.current is not None,
            "current_device": lambda: self.current,
            "set_device": lambda used: self.find(str(getattr(used, "index", used))),
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        monkeypatch.setattr(cuda, "find", self.find)

    def find(self, name: str) -> str:
        self.current = None if name == "cpu" else int(name.rpartition(":")[2])
        return name


@pytest.mark.parametrize(
    ("used", "name", "inside", "afterwards"),
    [
        (None, "auto", None, None),
        (None, "cuda:1", 1, 0),  # where the first one would be current
        (1, "auto", 1, 1),
        (1, "cuda", 1, 1),
        (1, "cuda:2", 2, 1),
    ],
)
def test_the_current_gpu_is_used_and_is_the_same_afterwards(
    used: int | None, name: str, inside: int | None, afterwards: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    process = Process(monkeypatch, used)
    with use_device(name):
        assert process.current == inside
    assert process.current == afterwards

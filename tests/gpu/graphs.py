"""What a replay costs with its input, its caches and its workspaces: `python -m tests.gpu.graphs`.

A graph that is captured by hand reads its input where it lay: new values have to be copied there,
which `reduce-overhead` does by itself. Two graphs captured on one stream share the workspace of
cuBLAS; destroying one must not free it (github.com/pytorch/pytorch/issues/193402).
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from modescope.bench.devices.cuda import find
from modescope.bench.devices.devices import Hardware
from modescope.models import mlp, transformer
from tests.gpu import cold
from tests.gpu.pretending import pretends

Call = Callable[[], Any]

SHAPES: dict[str, tuple[Callable[..., Any], dict[str, int], dict[str, int]]] = {
    "mlp": (
        mlp.build, {"batch": 256, "width": 4096, "depth": 4}, {"batch": 2, "width": 32, "depth": 2},
    ),
    "block, small": (
        transformer.build, {"batch": 1, "seq": 128, "width": 1024, "heads": 16},
        {"batch": 1, "seq": 8, "width": 32, "heads": 2},
    ),
    "block": (
        transformer.build, {"batch": 8, "seq": 512, "width": 2048, "heads": 16},
        {"batch": 1, "seq": 8, "width": 32, "heads": 2},
    ),
}  # fmt: skip
"""Name -> builder, its sizes, and those on the pretended GPU."""

CALLS, HELD_CALLS = 300, 60
HOLD_S = 1e-3  # longer than the host needs to queue a call
GATES_OPEN = 4 * HELD_CALLS // 20  # of four readings, one call in twenty: medians bear it
FLUSH_BYTES = 256 * 2**20  # more than any cache
MIB = 2**20


@dataclass(frozen=True)
class Found:
    """Of one model in bf16; device times are medians of calls behind a closed gate."""

    model: str
    eager_us: float  # latency
    replay_us: float
    copy_and_replay_us: float
    warm_us: float  # device time of a replay that follows another
    cold_us: float  # after the cache was overwritten
    eager_warm_us: float
    eager_cold_us: float
    gates_opened_early: int
    reserved_other_stream_mib: float  # by a capture on another stream than its warm-up
    reserved_same_stream_mib: float


def capture(call: Call, warm: Any = None, stream: Any = None) -> tuple[Any, Any]:
    """Captures `call` after warm-up on the stream `warm` (None: a new one); returns graph, output.

    `stream` is the one it is captured on; None: torch's own for captures.
    """
    warm = warm or torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(warm)
    graph = torch.cuda.CUDAGraph()
    gc.collect()  # a graph destroyed during a capture makes it fail
    with torch.cuda.graph(graph, stream=stream):
        output = call()
    return graph, output


def latency_us(call: Call, device: Hardware, calls: int) -> float:
    """The median time of a call that is waited for."""
    times = []
    for _ in range(calls):
        device.synchronize()
        begin = device.clock()
        call()
        device.synchronize()
        times.append(device.clock() - begin)
    return round(median(times) * 1e6, 2)


def device_us(call: Call, device: Hardware, calls: int, before: Call) -> tuple[float, int]:
    """The median device time of a call that waits behind a gate; how often it had opened early."""
    times, early = [], 0
    for _ in range(calls):
        device.hold(HOLD_S)
        before()
        begin = device.mark()
        call()
        end = device.mark()
        early += begin.reached()
        device.synchronize()
        times.append(end.seconds_since(begin))
    return round(median(times) * 1e6, 2), early


def reserved() -> int:
    """Bytes that torch's allocator holds of the card; 0 on the pretended GPU."""
    return torch.cuda.memory_reserved()


def examine(name: str, device: Hardware, small: bool, calls: int, held: int) -> Found:
    """Builds the model, captures it twice, and times replays and eager calls."""
    build, sizes, smoke_sizes = SHAPES[name]
    model, (x,) = build(**(smoke_sizes if small else sizes))
    place = device.torch_device
    model, x = model.to(place).eval().to(torch.bfloat16), x.to(place, torch.bfloat16)
    new = x.clone()
    flush = torch.empty(MIB if small else FLUSH_BYTES, dtype=torch.uint8, device=place)

    def eager() -> Any:
        return model(x)

    before = reserved()
    graph, _ = capture(eager)
    other = reserved() - before
    same_stream = torch.cuda.Stream()
    before = reserved()
    second = capture(eager, same_stream, same_stream)
    same = reserved() - before
    del second

    def fed() -> None:
        x.copy_(new)
        graph.replay()

    def nothing() -> None:
        return None

    read = {
        f"{kind}{heat}": device_us(call, device, held, start)
        for kind, call in (("", graph.replay), ("eager_", eager))
        for heat, start in (("warm_us", nothing), ("cold_us", lambda: flush.fill_(1)))
    }
    return Found(
        name, latency_us(eager, device, calls), latency_us(graph.replay, device, calls),
        latency_us(fed, device, calls), **{key: us for key, (us, _) in read.items()},
        gates_opened_early=sum(early for _, early in read.values()),
        reserved_other_stream_mib=other / MIB, reserved_same_stream_mib=same / MIB,
    )  # fmt: skip


def survives_the_other(device: Hardware, small: bool, ours: bool) -> bool:
    """Whether a graph is right after another one was destroyed.

    `ours`: both are captured as modescope does, each on a stream of its own; else both on the
    stream that torch uses for captures.
    """
    rows, inner, columns = (4, 8, 4) if small else (512, 8192, 640)
    place = device.torch_device
    a = torch.randn(rows, inner, device=place, dtype=torch.bfloat16)
    b = torch.randn(inner, columns, device=place, dtype=torch.bfloat16)
    make = device.capture if ours else _captured
    one = make(lambda: a @ b)
    expected = (a @ b).clone()
    two = make(lambda: a @ b)
    del two
    gc.collect()
    torch.cuda.empty_cache()
    count, size = (2, 8) if small else (64, MIB)
    filled = [torch.full((size,), 7.0, device=place) for _ in range(count)]  # over what was freed
    result: Any = one()
    device.synchronize()
    return torch.equal(result, expected) and bool(filled)


def _captured(call: Call) -> Call:
    graph, output = capture(call)

    def replay() -> Any:
        graph.replay()
        return output

    return replay


def problems(found: list[Found], survived: bool) -> list[str]:
    """What must not be: an open gate, a copy that costs nothing, a graph that was overwritten."""
    wrong = [
        f"{each.model}: the gate opened early {each.gates_opened_early} times"
        for each in found
        if each.gates_opened_early > GATES_OPEN
    ]
    wrong += [
        f"{each.model}: a replay with its copy ({each.copy_and_replay_us} µs) is faster than one "
        f"without ({each.replay_us} µs)"
        for each in found
        if each.copy_and_replay_us < 0.97 * each.replay_us
    ]
    return wrong if survived else [*wrong, "a replay is wrong after the other graph was destroyed"]


def summary(found: list[Found]) -> str:
    """What was found, in one line."""
    return "; ".join(
        f"{each.model}: replay {each.replay_us:.0f} µs, with copy {each.copy_and_replay_us:.0f}, "
        f"device warm {each.warm_us:.0f} cold {each.cold_us:.0f}, capture reserves "
        f"{each.reserved_other_stream_mib:.0f} MiB, on the warm-up's stream "
        f"{each.reserved_same_stream_mib:.0f}"
        for each in found
    )


def main(folder: Path) -> int:
    """Writes what was found to graphs.jsonl; returns 1 if something must not be, else 0."""
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    device, small = find("cuda"), pretends()
    calls, held = (5, 3) if small else (CALLS, HELD_CALLS)
    found = []
    with (folder / "graphs.jsonl").open("w", encoding="utf-8") as file:
        for name in SHAPES:
            found.append(examine(name, device, small, calls, held))
            file.write(f"{json.dumps(asdict(found[-1]))}\n")
            file.flush()
            print(found[-1])
        survived = survives_the_other(device, small, ours=True)
        workspace = device.allocator.workspace_bytes()
        seen = {"torch": torch.__version__, "survives_the_other": survived,
                "workspace_bytes": workspace}  # fmt: skip
        file.write(f"{json.dumps(seen)}\n")
        file.flush()  # what follows may end the process
        shared = survives_the_other(device, small, ours=False)
        file.write(f"{json.dumps({'survives_on_one_stream': shared})}\n")
    cold_told, cold_wrong = cold.compare(device, folder)
    # times of a pretended GPU mean nothing
    wrong = [] if small else [*problems(found, survived), *cold_wrong]
    if small and not survived:
        wrong = ["a replay is wrong after the other graph was destroyed"]
    told = f"survives the other graph: {survived}, on one stream: {shared}"
    print(f"{'; '.join([*wrong, summary(found), cold_told])}; workspaces {workspace} bytes; {told}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

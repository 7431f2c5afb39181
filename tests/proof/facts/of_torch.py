"""What is written of torch on CUDA, confirmed or refuted: graphs, allocator, autocast, profiler.

Each group runs in a process of its own. They need a real GPU: torch.cuda is used as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Step
from modescope.bench.steps.evidence.mode_effect import count_graph_launches
from modescope.bench.timing import timers
from modescope.bench.tools.selfcheck.outcomes import CheckRow
from tests.proof.facts.fact import Fact, Place, told

WIDTH = 256
CALLS = 200
SLOWER = 1.05


def net(width: int = WIDTH) -> nn.Module:
    """Two linear layers on the GPU."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)).cuda()


def without_gradients(module: nn.Module, x: Tensor) -> Callable[[], Tensor]:
    """A call of the module under no_grad."""

    def step() -> Tensor:
        with torch.no_grad():
            result: Tensor = module(x)
        return result

    return step


def warmed_up(step: Step) -> None:
    """Three calls on a side stream, as before a capture."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)


def captured(step: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """The graph of a step that is warmed up, and its output."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = step()
    return graph, output


def pool_id(of: Sequence[int]) -> tuple[int, int]:
    """The id of a pool, by which it can be looked up."""
    return int(of[0]), int(of[1])


def pools() -> dict[tuple[int, int], int]:
    """Reserved bytes of each private pool."""
    reserved: dict[tuple[int, int], int] = {}
    for segment in torch.cuda.memory_snapshot():
        pool = pool_id(segment["segment_pool_id"])
        if pool != (0, 0):
            reserved[pool] = reserved.get(pool, 0) + segment["total_size"]
    return reserved


def graph_trees(place: Place) -> Iterator[CheckRow]:
    """The proofs that reduce-overhead replays graphs."""
    from torch._inductor import cudagraph_trees

    module, x = torch.compile(net(), mode="reduce-overhead", fullgraph=True), _input()

    def step() -> Tensor:
        with torch.inference_mode():
            result: Tensor = module(x)
        return result

    for _ in range(4):
        step()
    torch.cuda.synchronize()
    launches = count_graph_launches(step, place.device)
    yield told("reduce-overhead: a steady call launches graphs", launches > 0, f"{launches}")
    private = pools()
    yield told(
        "reduce-overhead: the snapshot has segments of a private pool", bool(private),
        f"{len(private)} pools, {sum(private.values()) / 2**20:.1f} MiB",
    )  # fmt: skip
    manager = cudagraph_trees.get_container(torch.cuda.current_device()).tree_manager
    roots = sum(map(len, manager.roots.values())) if manager else 0
    yield told("reduce-overhead: the tree manager has recorded nodes", roots > 0, f"{roots} roots")


def replays(place: Place) -> Iterator[CheckRow]:
    """Replays follow inputs and weights, and leave the allocator alone."""
    module, x = net(), _input()

    step = without_gradients(module, x)
    warmed_up(step)
    graph, output = captured(step)
    right = []
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        graph.replay()
        right.append(torch.allclose(output, step(), atol=1e-5))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.5)
    graph.replay()
    right.append(torch.allclose(output, step(), atol=1e-5))
    yield told("a replay follows two new inputs and a changed weight", all(right), f"{right}")

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, counted = torch.cuda.memory_allocated(), _allocations()
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    grown, made = torch.cuda.max_memory_allocated() - before, _allocations() - counted
    yield told(
        "a replay does not touch the allocator", (grown, made) == (0, 0),
        f"peak grew by {grown} bytes, {made} allocations in 10 replays",
    )  # fmt: skip
    own = pools().get(pool_id(graph.pool()), 0)
    yield told("the snapshot's segment_pool_id equals graph.pool()", own > 0, f"{own} bytes in it")


def _allocations() -> int:
    return int(torch.cuda.memory_stats()["allocation.all.allocated"])


def _input() -> Tensor:
    return torch.randn(8, WIDTH, device="cuda")


def stale_casts(place: Place) -> Iterator[CheckRow]:
    """Autocast outside of the capture, with its cache on, replays the old weights."""
    for name, cached in (("on", True), ("off", False)):
        module, x = nn.Linear(WIDTH, WIDTH, bias=False).cuda(), _input()
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=cached):
            warmed_up(lambda module=module, x=x: module(x))  # type: ignore[misc]
            graph, output = captured(lambda module=module, x=x: module(x))  # type: ignore[misc]
        graph.replay()
        with torch.no_grad():
            module.weight.zero_()
        graph.replay()
        torch.cuda.synchronize()
        stale = bool(output.any())
        yield told(
            f"autocast opened outside the capture, its cache {name}: the replay "
            f"{'keeps the old' if cached else 'follows the new'} weights",
            stale == cached, "old" if stale else "new",
        )  # fmt: skip


def graphed_callables(place: Place) -> Iterator[CheckRow]:
    """make_graphed_callables refuses autocast with its cache on."""
    try:
        with torch.autocast("cuda", torch.bfloat16):
            torch.cuda.make_graphed_callables(net(), (_input().requires_grad_(),))
        refused = "accepted"
    except RuntimeError as error:
        refused = str(error).splitlines()[0][:120]
    confirmed = refused != "accepted"
    yield told("make_graphed_callables refuses autocast's cache", confirmed, refused)


def scaler_waits(place: Place) -> Iterator[CheckRow]:
    """GradScaler.step reads a value on the host, unless the optimizer is fused."""
    for fused in (False, True):
        module, x = net(), _input()
        optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, fused=fused)
        scaler = torch.amp.GradScaler("cuda")
        scaler.scale(module(x).sum()).backward()
        waits = _waits(lambda s=scaler, o=optimizer: s.step(o))  # type: ignore[misc]
        yield told(
            f"GradScaler.step with {'a fused' if fused else 'an unfused'} optimizer "
            f"{'does not wait' if fused else 'waits'} for the device",
            waits != fused, "it waits" if waits else "it does not",
        )  # fmt: skip


def _waits(step: Step) -> bool:
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        return True
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return False


def workspace(place: Place) -> Iterator[CheckRow]:
    """The first matrix product allocates a workspace."""
    a = torch.randn(64, 64, device="cuda")
    before = torch.cuda.memory_allocated()
    b = a @ a
    torch.cuda.synchronize()
    more = torch.cuda.memory_allocated() - before - b.untyped_storage().nbytes()
    yield told("cuBLAS takes a workspace at the first product", more > 0, f"{more} bytes", more)


def policies(place: Place) -> Iterator[CheckRow]:
    """Autocast casts other operators on CUDA than on the CPU."""
    dtypes: dict[str, list[str]] = {}
    for device in ("cpu", "cuda"):
        x = torch.randn(4, 4, device=device, dtype=torch.bfloat16)
        with torch.autocast(device, torch.bfloat16):
            results = (nn.functional.layer_norm(x, (4,)), x.sum(), x.softmax(-1))
        dtypes[device] = [str(each.dtype).removeprefix("torch.") for each in results]
    found = f"layer_norm, sum, softmax of bf16: {dtypes['cpu']} and {dtypes['cuda']}"
    yield told("autocast's policies of CPU and CUDA differ", dtypes["cpu"] != dtypes["cuda"], found)


def kernels_of_a_replay(place: Place) -> Iterator[CheckRow]:
    """In a trace, kernels of a replay have the correlation id of its launch."""
    module, x = net(), _input()

    step = without_gradients(module, x)
    warmed_up(step)
    graph, _ = captured(step)
    graph.replay()
    events = traced(place, graph.replay)
    launches = {
        each["args"]["correlation"]
        for each in events
        if each.get("cat") in ("cuda_runtime", "cuda_driver") and "GraphLaunch" in each["name"]
    }
    kernels = [each["args"]["correlation"] for each in events if each.get("cat") == "kernel"]
    confirmed = bool(launches and kernels) and set(kernels) <= launches
    found = f"{len(launches)} launches, {len(kernels)} kernels"
    yield told("kernels of a replay carry the id of its launch", confirmed, found)


def traced(place: Place, step: Step) -> list[dict[str, Any]]:
    """The events of the chrome trace of a call."""
    with torch.profiler.profile(activities=list(place.device.activities)) as profile:
        step()
        torch.cuda.synchronize()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(file))
        events: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    return events


def after_the_profiler(place: Place) -> Iterator[CheckRow]:
    """Once the profiler has run in a process, later work may stay slower."""
    module, x = net(), _input()

    step = without_gradients(module, x)

    def host_s() -> float:
        return median(timers.host(step, place.device, CALLS).samples_s)

    for _ in range(CALLS):
        step()
    before_s = median(host_s() for _ in range(9))
    traced(place, step)
    after_s = median(host_s() for _ in range(9))
    ratio = after_s / before_s
    found = f"a call takes {ratio:.3f} of the host's time before ({before_s * 1e6:.1f} µs)"
    yield told("the profiler slows later work by 5 % or more", ratio >= SLOWER, found, ratio)


GROUPS: dict[str, Sequence[Fact]] = {
    "graph-trees": (graph_trees,),
    "captures": (replays, stale_casts, graphed_callables, scaler_waits),
    "allocator": (workspace,),
    "autocast": (policies,),
    "profiler": (after_the_profiler, kernels_of_a_replay),
}

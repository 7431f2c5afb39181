"""What modescope relies on of torch's graphs, allocator, autocast and profiler on a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.records.cases import Case, Model, Variant
from modescope.bench.sweep import isolation
from tests.helpers.probe_models import preset, smoke
from tests.helpers.processes import alive, marker, soon

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("fresh_compiler")]

WIDTH = 256


def net() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)
    return nn.Sequential(*layers).cuda()


def batch() -> Tensor:
    return torch.randn(8, WIDTH, device="cuda")


def captured(step: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """A graph of the step, which is first warmed up on a side stream, and its output."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = step()
    return graph, output


def without_gradients(module: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], Tensor]:
    def step() -> Tensor:
        with torch.no_grad():
            return module(x)

    return step


def private_pools() -> dict[tuple[int, ...], int]:
    """Reserved bytes of each pool that is not the common one."""
    reserved: dict[tuple[int, ...], int] = {}
    for segment in torch.cuda.memory_snapshot():
        pool = tuple(segment["segment_pool_id"])
        if pool != (0, 0):
            reserved[pool] = reserved.get(pool, 0) + segment["total_size"]
    return reserved


def test_graph_trees_record_into_a_private_pool() -> None:
    from torch._inductor import cudagraph_trees

    before = private_pools().keys()
    step = without_gradients(torch.compile(net(), mode="reduce-overhead", fullgraph=True), batch())
    for _ in range(4):
        step()
    torch.cuda.synchronize()
    assert private_pools().keys() - before
    manager = cudagraph_trees.get_container(torch.cuda.current_device()).tree_manager
    assert sum(map(len, manager.roots.values())) > 0


def test_a_replay_leaves_the_allocator_alone_and_its_pool_is_in_the_snapshot() -> None:
    graph, _ = captured(without_gradients(net(), batch()))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, made = torch.cuda.memory_allocated(), torch.cuda.memory_stats()
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() == before
    counted = "allocation.all.allocated"
    assert torch.cuda.memory_stats()[counted] == made[counted]
    assert private_pools()[tuple(graph.pool())] > 0


@pytest.mark.parametrize("cached", [True, False])
def test_autocast_outside_the_capture_goes_stale_only_with_its_cache(cached: bool) -> None:
    module, x = nn.Linear(WIDTH, WIDTH, bias=False).cuda(), batch()
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=cached):
        graph, output = captured(lambda: module(x))
    with torch.no_grad():
        module.weight.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert bool(output.any()) == cached


def test_graphed_callables_refuse_the_cache_of_autocast() -> None:
    with (
        torch.autocast("cuda", torch.bfloat16),
        pytest.raises(RuntimeError, match="autocast"),
    ):
        torch.cuda.make_graphed_callables(net(), (batch().requires_grad_(),))


@pytest.mark.usefixtures("no_pools")
def test_the_first_product_takes_a_workspace() -> None:
    a = torch.randn(64, 64, device="cuda")
    before = torch.cuda.memory_allocated()
    b = a @ a
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before > b.untyped_storage().nbytes()


def test_autocast_keeps_other_operators_in_fp32_than_on_a_cpu() -> None:
    dtypes = {}
    for device in ("cpu", "cuda"):
        x = torch.randn(4, 4, device=device, dtype=torch.bfloat16)
        with torch.autocast(device, torch.bfloat16):
            results = (nn.functional.layer_norm(x, (4,)), x.sum(), x.softmax(-1))
        dtypes[device] = [each.dtype for each in results]
    assert dtypes["cpu"] != dtypes["cuda"]


def traced(step: Step, device: Hardware, path: Path) -> list[dict[str, Any]]:
    """The events of a call in torch's trace."""
    with torch.profiler.profile(activities=list(device.activities)) as profile:
        step()
        torch.cuda.synchronize()
    profile.export_chrome_trace(str(path))
    events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events


def test_kernels_of_a_replay_carry_the_id_of_its_launch(device: Hardware, tmp_path: Path) -> None:
    graph, _ = captured(without_gradients(net(), batch()))
    graph.replay()
    events = traced(graph.replay, device, tmp_path / "trace.json")
    launches = {
        each["args"]["correlation"]
        for each in events
        if each.get("cat") in ("cuda_runtime", "cuda_driver") and "GraphLaunch" in each["name"]
    }
    kernels = {each["args"]["correlation"] for each in events if each.get("cat") == "kernel"}
    assert len(launches) == 1
    assert kernels == launches


@pytest.mark.parametrize("mode", ["eager", "compile", "reduce-overhead"])
def test_a_child_uses_the_gpu_and_leaves_no_process(mode: str, tmp_path: Path) -> None:
    sign = marker()
    model = Model("mlp", "modescope.models.mlp:build")
    shape_json = '{"batch":64,"depth":4,"width":256}'
    case = Case(model, shape_json, Variant(preset(mode), "fp32"), None, "cuda", threads=1)
    variables = {
        "MODESCOPE_TEST": sign,
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
    }
    run = "modescope.bench.case.runner:run"
    outcome = isolation.call(run, case, smoke(), timeout_s=120, variables=variables)
    assert outcome.value.status == "ok", outcome
    assert soon(lambda: not alive(sign), 5.0)

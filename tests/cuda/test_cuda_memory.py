"""Tests that need a GPU: the caching allocator's rounding, a graph's pool, a snapshot."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modescope.bench.devices.cuda_allocator import CudaAllocator
from modescope.bench.devices.devices import Hardware
from modescope.bench.model.subject import Built, Inputs, Subject
from modescope.bench.modes import fp32_products, modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.passes import ceilings, counting, memory
from modescope.bench.stats.roofline import floor
from modescope.bench.timing import timers
from tests.helpers.probe_models import variant

pytestmark = pytest.mark.cuda

BATCH, WIDTH, HIDDEN = 256, 128, 512
HIDDEN_BYTES = BATCH * HIDDEN * 4
BLOCK_BYTES = 512
MIB = 2**20


@pytest.fixture
def allocator() -> CudaAllocator:
    return CudaAllocator(0)


@pytest.fixture
def subject(device: Hardware) -> Subject:
    net = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))
    return Subject(net, Inputs((torch.randn(BATCH, WIDTH),), {})).to(device.torch_device)


@pytest.mark.usefixtures("no_pools")
def test_memory_of_two_layers(subject: Subject, device: Hardware, allocator: CudaAllocator) -> None:
    asked = variant(grad="enabled")
    built = modes.build(subject, asked, True, device, ONE_CALL)
    built.step()
    found = memory.read(built, asked, allocator)
    assert found.saved_activation_bytes == 2 * HIDDEN_BYTES
    assert found.step_peak_bytes >= 2 * HIDDEN_BYTES + BATCH * WIDTH * 4
    assert (found.step_left_bytes, found.graph_pool_bytes, found.graph_pool_live_bytes) == (0, 0, 0)
    assert found.resident_bytes >= found.weights_bytes + found.input_bytes
    assert found.reserved_bytes >= found.resident_bytes + found.step_peak_bytes


@pytest.mark.parametrize("axes", [{"graph": True}, {"compile": "reduce-overhead"}], ids=str)
def test_a_graph_allocates_nothing_and_has_a_pool(
    axes: dict[str, Any], subject: Subject, device: Hardware, allocator: CudaAllocator
) -> None:
    asked = variant(grad="inference_mode", **axes)
    built = modes.build(subject, asked, True, device, ONE_CALL)
    for _ in range(4):
        built.step()
    found = memory.read(built, asked, allocator)
    assert 0 <= found.graph_pool_live_bytes <= min(found.graph_pool_bytes, found.resident_bytes)
    assert found.graph_pool_bytes > 0
    assert found.reserved_bytes >= found.graph_pool_bytes
    if asked.mode.graph:
        assert found.allocations_per_call == 0
        assert found.step_peak_bytes == 0
        assert found.graph_pool_live_bytes >= BATCH * WIDTH * 4, "its output outlives each replay"
    torch.compiler.reset()


def test_setup_peak_includes_memory_freed_during_the_first_call(allocator: CudaAllocator) -> None:
    with allocator.watch_setup() as watched:
        torch.ones(64 * MIB, dtype=torch.uint8, device="cuda")
    assert watched.result.setup_peak_bytes == 64 * MIB


def recorded_sizes(path: Path) -> list[int]:
    """Sizes of the events of a snapshot that allocated or freed."""
    snapshot = pickle.loads(path.read_bytes())
    events = [event for trace in snapshot["device_traces"] for event in trace]
    return [event["size"] for event in events if event["action"] in ("alloc", "free_completed")]


def test_a_snapshot_keeps_the_last_events(allocator: CudaAllocator, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    with allocator.record(path, entries=4):
        for blocks in range(1, 11):
            torch.empty(blocks * BLOCK_BYTES, dtype=torch.uint8, device="cuda")
    assert set(recorded_sizes(path)) <= {9 * BLOCK_BYTES, 10 * BLOCK_BYTES}
    assert recorded_sizes(path)


@pytest.fixture
def set_precision() -> Iterator[Callable[[str], None]]:
    before = torch.get_float32_matmul_precision()
    yield lambda dtype: torch.set_float32_matmul_precision(
        fp32_products.MATMUL_PRECISION.get(dtype, "highest")
    )
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "bf16"])
def test_a_large_product_is_near_its_roofline_floor(
    dtype: str, device: Hardware, set_precision: Callable[[str], None]
) -> None:
    found = ceilings.measure(device, dtype)
    side = 4096
    one = torch.randn(side, side, dtype=modes.DTYPES[dtype], device=device.torch_device)
    subject = Subject(nn.Identity(), Inputs((one,), {}))
    set_precision(dtype)

    def product() -> torch.Tensor:
        return one @ one

    work = counting.count(Built(subject, subject.module, product, product))
    assert work.flops == 2 * side**3
    least = floor(work, found)
    assert least.bound == "compute"
    seconds = min(timers.device_time(product, device, 10).median_s for _ in range(5))
    assert 0.6 <= least.seconds / seconds <= 1.05


def test_a_large_copy_and_a_large_sum_are_near_their_roofline_floors(device: Hardware) -> None:
    """Of 1 GiB each, which fits no cache: no faster than the ceiling, and not much slower."""
    found = ceilings.measure(device, "fp32", sides=())
    source = torch.ones(2**30 // 8, device=device.torch_device)
    target, whole = torch.empty_like(source), torch.ones(2**30 // 4, device=device.torch_device)
    for step in (lambda: target.copy_(source), lambda: whole.sum()):
        least_s = 2**30 / found.bytes_per_s(2**30)
        seconds = min(timers.device_time(step, device, 10).median_s for _ in range(5))
        assert 0.6 <= least_s / seconds <= 1.05

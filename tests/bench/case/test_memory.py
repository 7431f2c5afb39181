"""Bytes worked out by hand against those of the memory pass, on the CPU's allocator."""

from __future__ import annotations

import copy
import mmap
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef

from modescope.bench.case import memory
from modescope.bench.devices import allocators, cuda_allocator
from modescope.bench.devices.allocators import Allocations, CpuAllocator, Peak, Pools
from modescope.bench.devices.cuda_allocator import CudaAllocator
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.records.cases import Variant
from modescope.bench.records.columns import Memory
from modescope.bench.steps import modes
from modescope.bench.steps.phases import ONE_CALL
from modescope.bench.steps.subject import Built, Inputs, Subject
from modescope.models import decoder
from tests.helpers.probe_models import Counts, variant

CPU = CpuAllocator()
BATCH, WIDTH, HIDDEN, OUT = 8, 16, 64, 4
FLOAT = 4
HIDDEN_BYTES = BATCH * HIDDEN * FLOAT
OUT_BYTES = BATCH * OUT * FLOAT
WEIGHTS = (WIDTH * HIDDEN + HIDDEN) + (HIDDEN * OUT + OUT)  # elements


def two_layers(inplace: bool = False) -> Subject:
    net = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, OUT))
    return Subject(net, Inputs((torch.randn(BATCH, WIDTH),), {}))


def called_before(subject: Subject, asked: Variant) -> Built:
    built = modes.build(subject, asked, True, Cpu(), ONE_CALL)
    built.step()
    return built


def stepping(subject: Subject, asked: Variant) -> Step:
    return called_before(subject, asked).live


def of(function: Callable[[Tensor], Any], x: Tensor) -> tuple[Step, Subject]:
    """A step that applies `function` to its input, and its subject, which has no weights."""
    return lambda: function(x), Subject(nn.Identity(), Inputs((x,), {}))


def called(step: Callable[[], object]) -> Allocations:
    return memory.steady_call(step, CPU)


# Allocations of a call


@pytest.mark.parametrize(("count", "size"), [(1, 1000), (7, 4096), (50, 12)])
def test_exactly_k_tensors_of_n_bytes(count: int, size: int) -> None:
    found = called(lambda: [torch.empty(size, dtype=torch.uint8) for _ in range(count)])
    total = count * size
    assert found == Allocations(count, count, total, total, total)


def test_allocations_freed_in_turn_peak_at_one() -> None:
    def step() -> None:
        for _ in range(7):
            torch.empty(1000, dtype=torch.uint8)

    found = called(step)
    assert (found.allocations, found.allocated_bytes, found.peak_bytes) == (7, 7000, 1000)


def test_the_peak_follows_the_order_within_nested_operators() -> None:
    """Without gradients the first activation is freed before the output: two at most."""
    found = called(stepping(two_layers(), variant(grad="no_grad")))
    assert found.allocations == 3
    assert found.peak_bytes == 2 * HIDDEN_BYTES
    assert found.allocated_bytes == 2 * HIDDEN_BYTES + OUT_BYTES


def test_gradients_keep_every_activation_until_the_output_is_dropped() -> None:
    found = called(stepping(two_layers(), variant(grad="enabled")))
    assert found.peak_bytes == 2 * HIDDEN_BYTES + OUT_BYTES
    assert found.left_bytes == 0


def test_memory_kept_by_every_call_is_left_over() -> None:
    kept: list[Tensor] = []
    found = called(lambda: kept.append(torch.empty(1000, dtype=torch.uint8)))
    assert (found.left_bytes, found.releases) == (1000, 0)


def test_replaced_state_is_not_left_over() -> None:
    """The one before the first watched call was allocated unseen, so its release is unseen too."""
    state = {"cache": torch.empty(1000, dtype=torch.uint8)}

    def step() -> None:
        state["cache"] = torch.empty(1000, dtype=torch.uint8)

    assert called(step) == Allocations(1, 1, 1000, 1000, 1000)


def test_an_in_place_step_allocates_nothing() -> None:
    x = torch.zeros(1000)
    assert called(lambda: x.relu_()) == Allocations(0, 0, 0, 0, 0)


def test_a_watch_ends_with_its_block() -> None:
    with CPU.watch() as watched:
        inside = watched.result
        torch.empty(1000, dtype=torch.uint8)
    torch.empty(5000, dtype=torch.uint8)
    assert inside is None
    assert watched.result.allocated_bytes == 1000


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ([], Allocations(0, 0, 0, 0, 0)),
        ([4, 2, -4, 8, -2], Allocations(3, 2, 14, 6, 10)),
        ([-5, 3], Allocations(1, 1, 3, 5, 0)),  # never above where it began
    ],
)
def test_the_tally_of_changes_by_hand(changes: list[int], found: Allocations) -> None:
    assert allocators.tally(changes) == found


# Saved activations

GRADIENTS_OFF = ("no_grad", "inference_mode")


def test_saved_activations_of_two_layers() -> None:
    """GELU saves its input, the second layer GELU's output.

    The model's input and weights exist anyway and are not counted.
    """
    subject = two_layers()
    step = stepping(subject, variant(grad="enabled"))
    assert memory.saved_activation_bytes(step, subject) == 2 * HIDDEN_BYTES


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("grad", GRADIENTS_OFF)
def test_without_gradients_nothing_is_saved_for_backward(grad: str, autocast: bool) -> None:
    subject = two_layers()
    asked = variant("bf16" if autocast else "fp32", grad=grad, autocast=autocast)
    assert memory.saved_activation_bytes(stepping(subject, asked), subject) == 0


def test_saved_bytes_of_compiled_code_are_counted_without_recompiling() -> None:
    subject = two_layers()
    compiled = torch.compile(subject.module, backend="aot_eager", fullgraph=True)
    x = subject.inputs.args[0]
    compiled(x)
    before = counters["stats"]["unique_graphs"]
    assert before
    assert memory.saved_activation_bytes(lambda: compiled(x), subject) == 2 * HIDDEN_BYTES
    assert counters["stats"]["unique_graphs"] == before
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("function", "saved"),
    [
        (lambda x: x.exp(), 1),  # its output
        (lambda x: (y := x.exp()) * y, 1),  # one storage, saved three times
        (lambda x: x.exp().view(-1)[:10].square(), 1),  # a view keeps the whole storage
        (lambda x: x.exp().exp(), 2),
        (lambda x: x * x, 0),  # only the input
        (lambda x: (x.exp().sum(), None)[1], 1),  # dropped with the call, but kept within it
    ],
    ids=["output", "shared", "view", "two", "input", "dropped"],
)
def test_saved_storages_count_once(function: Callable[[Tensor], Any], saved: int) -> None:
    x = torch.randn(10, 25, requires_grad=True)
    assert memory.saved_activation_bytes(*of(function, x)) == saved * 1000


def test_saved_tensors_freed_in_turn_do_not_add_up() -> None:
    def one_at_a_time(x: Tensor) -> None:
        for _ in range(3):
            x.exp()

    x = torch.randn(250, requires_grad=True)
    assert memory.saved_activation_bytes(*of(one_at_a_time, x)) == 1000


def test_counting_saved_tensors_leaks_no_memory() -> None:
    made: list[StorageWeakRef] = []

    def noted(x: Tensor) -> Tensor:
        y = x.exp()
        made.append(StorageWeakRef(y.untyped_storage()))
        return y

    memory.saved_activation_bytes(*of(noted, torch.randn(250, requires_grad=True)))
    assert [each.expired() for each in made] == [True]


# Autocast's copies


def copies(subject: Subject, **axes: Any) -> int | None:
    asked = variant("bf16", **axes)
    return memory.autocast_copy_bytes(stepping(subject, asked), subject.module, asked)


@pytest.mark.parametrize("grad", ["enabled", "no_grad"])
def test_autocast_keeps_copies_of_all_weights(grad: str) -> None:
    assert copies(two_layers(), grad=grad, autocast=True) == 2 * WEIGHTS


def test_autocast_keeps_no_copies_in_inference_mode() -> None:
    """Only the copies of the first layer, the larger ones, exist at one time."""
    largest = 2 * (WIDTH * HIDDEN + HIDDEN)
    assert copies(two_layers(), grad="inference_mode", autocast=True) == largest


def test_weights_of_the_right_dtype_are_not_copied() -> None:
    subject = two_layers().cast(torch.bfloat16)
    assert copies(subject, autocast=True) == 0


def test_without_autocast_there_are_no_copies() -> None:
    assert copies(two_layers().cast(torch.bfloat16), autocast=False) == 0


def test_copies_in_compiled_code_are_unknown() -> None:
    subject, asked = two_layers(), variant("bf16", autocast=True, compile="default")
    assert memory.autocast_copy_bytes(lambda: None, subject.module, asked) is None


# Weights, inputs and other memory


def tied() -> nn.Module:
    one, other = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
    other.weight = one.weight
    return nn.Sequential(one, other)


def buffered() -> nn.Module:
    module = nn.Linear(8, 8, bias=False)
    module.register_buffer("part", module.weight.detach()[:4])  # a view of the weight
    module.register_buffer("own", torch.zeros(3))
    return module


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (two_layers().module, WEIGHTS * FLOAT),
        (tied(), 8 * 8 * FLOAT),
        (buffered(), 8 * 8 * FLOAT + 3 * FLOAT),
        (nn.ReLU(), 0),
    ],
    ids=["layers", "tied", "buffers", "none"],
)
def test_weights_count_once(module: nn.Module, expected: int) -> None:
    assert memory.weights_bytes(module) == expected


def test_the_cache_of_a_decoder_counts_as_buffers() -> None:
    module, _ = decoder.decode(batch=2, seq=10, width=16, heads=2, depth=3, vocab=20)
    cache, rotations, places = 3 * 2 * (2 * 10 * 16) * FLOAT, 10 * 8 * FLOAT, 10 * 8
    assert memory.buffers_bytes(module) == cache + rotations + places


def test_buffers_count_without_those_that_are_views_of_weights() -> None:
    assert memory.buffers_bytes(buffered()) == 3 * FLOAT
    assert memory.buffers_bytes(two_layers().module) == 0


def test_inputs_that_share_storage_count_once() -> None:
    x = torch.zeros(6, 5)
    assert memory.input_bytes(Inputs((x, x[2:], x.t()), {"mask": torch.zeros(7)})) == 148


def test_a_second_copy_of_the_model_shows_in_resident_bytes() -> None:
    subject = two_layers()
    alone = CPU.resident_bytes()
    planted = copy.deepcopy(subject.module)
    assert CPU.resident_bytes() - alone == memory.weights_bytes(planted) == WEIGHTS * FLOAT


def test_fake_tensors_take_no_memory() -> None:
    before = CPU.resident_bytes()
    with FakeTensorMode():
        imagined = torch.empty(10**9)
    assert imagined.numel() == 10**9
    assert CPU.resident_bytes() == before


# All columns


def test_all_memory_columns_of_two_layers() -> None:
    asked = variant(grad="enabled")
    found = memory.read(called_before(two_layers(), asked), asked, CPU)
    assert found == Memory(
        weights_bytes=WEIGHTS * FLOAT,
        buffers_bytes=0,
        input_bytes=BATCH * WIDTH * FLOAT,
        gradient_bytes=None,
        optimizer_state_bytes=None,
        resident_bytes=found.resident_bytes,  # other tests' tensors are in it
        saved_activation_bytes=2 * HIDDEN_BYTES,
        autocast_copy_bytes=0,
        step_peak_bytes=2 * HIDDEN_BYTES + OUT_BYTES,
        step_left_bytes=0,
        allocations_per_call=3,
        allocated_bytes_per_call=2 * HIDDEN_BYTES + OUT_BYTES,
        reserved_bytes=None,
        graph_pool_bytes=None,
        graph_pool_live_bytes=None,
        memory_note=None,
    )


def test_unknown_memory_has_a_reason() -> None:
    module = nn.Module()
    module.register_buffer("sparse", torch.eye(3).to_sparse())
    subject = Subject(module, Inputs((torch.zeros(2),), {}))
    asked = variant("bf16", autocast=True, compile="default")

    def nothing() -> None:
        return None

    found = memory.read(Built(subject, module, nothing, nothing), asked, CPU)
    assert (found.weights_bytes, found.saved_activation_bytes, found.autocast_copy_bytes) == (
        None,
        None,
        None,
    )
    assert found.input_bytes == 8
    assert found.memory_note == f"{memory.NO_STORAGE}; {memory.COMPILED_CASTS}"


def test_reading_memory_restores_the_buffers_of_a_model() -> None:
    subject = Subject(Counts(in_place=True), Inputs((torch.randn(2, 4),), {}))
    before = copy.deepcopy(subject.module.state_dict())
    built = called_before(subject, variant())
    calls_made = copy.deepcopy(subject.module.state_dict())
    memory.read(built, variant(), CPU)
    after = subject.module.state_dict()
    assert all(torch.equal(after[name], calls_made[name]) for name in after)
    assert any(not torch.equal(before[name], calls_made[name]) for name in before)


# Setting up

MIB = 2**20


def mapped_and_unmapped(size: int) -> None:
    """Map pages, write to each and unmap them: malloc would reuse pages that are resident."""
    with mmap.mmap(-1, size) as pages:
        for start in range(0, size, mmap.PAGESIZE):
            pages[start] = 1


@pytest.mark.skipif(not allocators.CLEAR_REFS.exists(), reason="no /proc/self/clear_refs here")
def test_setup_peak_includes_memory_freed_during_the_first_call() -> None:
    with CPU.watch_setup() as watched:
        mapped_and_unmapped(64 * MIB)
    assert 60 * MIB < watched.result.above_start_bytes < 100 * MIB
    with CPU.watch_setup() as watched:
        mapped_and_unmapped(1 * MIB)
    assert watched.result.above_start_bytes < 30 * MIB, "the peak before was not forgotten"


@pytest.mark.parametrize("missing", ["STATUS", "CLEAR_REFS"])
def test_setup_peak_is_unknown_without_the_systems_counters(
    missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(allocators, missing, tmp_path / "no" / "such")
    with CPU.watch_setup() as watched:
        pass
    assert watched.result.above_start_bytes is None
    assert "No such file" in watched.result.note


def test_a_cpu_has_no_snapshots() -> None:
    assert not CPU.snapshots


# Made-up statistics of CUDA's allocator


def statistics(allocated: int, freed: int, taken: int, returned: int, peak: int) -> dict[str, int]:
    """Blocks of 512 bytes of which 500 were asked for."""
    current = taken - returned
    return {
        "allocation.all.allocated": allocated,
        "allocation.all.freed": freed,
        "allocated_bytes.all.allocated": taken * 512,
        "allocated_bytes.all.freed": returned * 512,
        "allocated_bytes.all.current": current * 512,
        "allocated_bytes.all.peak": peak * 512,
        "requested_bytes.all.current": current * 500,
        "requested_bytes.all.peak": peak * 500,
    }


def test_cuda_statistics_become_allocations() -> None:
    """10 blocks are held at first; 4 more come and 3 go, 3 of them at the same time."""
    before = statistics(allocated=20, freed=10, taken=20, returned=10, peak=10)
    after = statistics(allocated=24, freed=13, taken=24, returned=13, peak=13)
    found = cuda_allocator.since(before, after)
    assert found == Allocations(4, 3, 4 * 512, 3 * 512, 3 * 512)
    assert found.left_bytes == 512


SEGMENTS = [
    {"device": device, "segment_pool_id": pool, "total_size": size, "allocated_size": live}
    for device, pool, size, live in [
        (0, (0, 0), 100, 90),  # not of a graph
        (0, (0, 1), 20, 8),
        (0, (1, 0), 40, 0),
        (1, (0, 1), 70, 60),  # of another GPU
    ]
]


def on_cuda(backend: str, monkeypatch: pytest.MonkeyPatch) -> CudaAllocator:
    """An allocator on a patched torch, as if there were a GPU."""
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: backend)
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda include_traces: SEGMENTS)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: 7)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda index: 5)
    return CudaAllocator(0)


def test_graph_pools_count_this_device_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 bytes in two of them a tensor holds 8."""
    found = on_cuda("native", monkeypatch).pools()
    assert found == Pools(reserved_bytes=7, graph_pool_bytes=60, graph_pool_live_bytes=8)


def test_an_allocator_without_statistics_gives_null(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = on_cuda("cudaMallocAsync", monkeypatch)
    asked = variant()
    found = memory.read(called_before(two_layers(), asked), asked, allocator)
    assert found == Memory(
        weights_bytes=WEIGHTS * FLOAT,
        buffers_bytes=0,
        input_bytes=BATCH * WIDTH * FLOAT,
        saved_activation_bytes=2 * HIDDEN_BYTES,
        autocast_copy_bytes=0,
        memory_note=cuda_allocator.UNREADABLE.format("cudaMallocAsync"),
    )
    with allocator.watch_setup() as watched:
        pass
    assert watched.result == Peak(None, found.memory_note)
    assert not allocator.snapshots
    assert on_cuda("native", monkeypatch).snapshots


def test_memory_columns_can_be_pickled() -> None:
    facts = replace(Memory(), weights_bytes=3)
    assert pickle.loads(pickle.dumps(facts)) == facts

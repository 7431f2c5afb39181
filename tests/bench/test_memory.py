"""Bytes worked out by hand against what the memory pass reads, on the CPU's allocator."""

from __future__ import annotations

import copy
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

from bench import modes
from bench.devices import Cpu, Step
from bench.findings import Memory
from bench.memory import allocators, cuda, reading
from bench.memory.allocators import Allocations, CpuAllocator, Peak, Pools
from bench.memory.cuda import CudaAllocator
from bench.records import Variant
from bench.subject import Inputs, Subject
from tests.probes import Counts, variant

CPU = CpuAllocator()
BATCH, WIDTH, HIDDEN, OUT = 8, 16, 64, 4
FLOAT = 4
HIDDEN_BYTES = BATCH * HIDDEN * FLOAT
OUT_BYTES = BATCH * OUT * FLOAT
WEIGHTS = (WIDTH * HIDDEN + HIDDEN) + (HIDDEN * OUT + OUT)  # elements


def two_layers(inplace: bool = False) -> Subject:
    net = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, OUT))
    return Subject(net, Inputs((torch.randn(BATCH, WIDTH),), {}))


def called_before(subject: Subject, asked: Variant) -> modes.Built:
    built = modes.build(subject, asked, True, Cpu())
    built.step()
    return built


def stepping(subject: Subject, asked: Variant) -> Step:
    return called_before(subject, asked).live


def of(function: Callable[[Tensor], Any], x: Tensor) -> tuple[Step, Subject]:
    """A step that applies `function` to its input, and its subject, which has no weights."""
    return lambda: function(x), Subject(nn.Identity(), Inputs((x,), {}))


def called(step: Callable[[], object]) -> Allocations:
    return reading.steady_call(step, CPU)


# What a call allocates


@pytest.mark.parametrize(("count", "size"), [(1, 1000), (7, 4096), (50, 12)])
def test_exactly_k_tensors_of_n_bytes(count: int, size: int) -> None:
    found = called(lambda: [torch.empty(size, dtype=torch.uint8) for _ in range(count)])
    total = count * size
    assert found == Allocations(
        count, count, total, total, peak_bytes=total, requested_peak_bytes=total
    )


def test_one_after_the_other_peaks_at_one() -> None:
    def step() -> None:
        for _ in range(7):
            torch.empty(1000, dtype=torch.uint8)

    found = called(step)
    assert (found.allocations, found.allocated_bytes, found.peak_bytes) == (7, 7000, 1000)


def test_peak_follows_the_order_within_nested_operators() -> None:
    """Without gradients the first activation is gone when the output comes: two at most."""
    found = called(stepping(two_layers(), variant(grad="no_grad")))
    assert found.allocations == 3
    assert found.peak_bytes == 2 * HIDDEN_BYTES
    assert found.allocated_bytes == 2 * HIDDEN_BYTES + OUT_BYTES


def test_gradients_keep_every_activation_until_the_output_is_dropped() -> None:
    found = called(stepping(two_layers(), variant(grad="enabled")))
    assert found.peak_bytes == 2 * HIDDEN_BYTES + OUT_BYTES
    assert found.left_bytes == 0


def test_what_every_call_keeps_is_left_over() -> None:
    kept: list[Tensor] = []
    found = called(lambda: kept.append(torch.empty(1000, dtype=torch.uint8)))
    assert (found.left_bytes, found.releases) == (1000, 0)


def test_state_that_a_call_replaces_is_no_leak() -> None:
    """The one before the first watched call was allocated unseen, so its release is unseen too."""
    state = {"cache": torch.empty(1000, dtype=torch.uint8)}

    def step() -> None:
        state["cache"] = torch.empty(1000, dtype=torch.uint8)

    assert called(step) == Allocations(1, 1, 1000, 1000, 1000, 1000)


def test_a_step_in_place_allocates_nothing() -> None:
    x = torch.zeros(1000)
    assert called(lambda: x.relu_()) == Allocations(0, 0, 0, 0, 0, 0)


def test_a_watch_is_over_when_its_block_is() -> None:
    with CPU.watch() as watched:
        inside = watched.found
        torch.empty(1000, dtype=torch.uint8)
    torch.empty(5000, dtype=torch.uint8)
    assert inside is None
    assert watched.found.allocated_bytes == 1000


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ([], Allocations(0, 0, 0, 0, 0, 0)),
        ([4, 2, -4, 8, -2], Allocations(3, 2, 14, 6, 10, 10)),
        ([-5, 3], Allocations(1, 1, 3, 5, 0, 0)),  # never above where it began
    ],
)
def test_tally(changes: list[int], found: Allocations) -> None:
    assert allocators.tally(changes) == found


# Saved activations

GRADIENTS_OFF = ("no_grad", "inference_mode")


def test_saved_activations_of_two_layers() -> None:
    """GELU keeps what it is given, the second layer what GELU returned; the input is there anyway.

    The first layer's weight is kept by nobody, the second's by its own gradient: it is a weight.
    """
    subject = two_layers()
    step = stepping(subject, variant(grad="enabled"))
    assert reading.saved_activation_bytes(step, subject) == 2 * HIDDEN_BYTES


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("grad", GRADIENTS_OFF)
def test_nothing_is_saved_where_gradients_are_off(grad: str, autocast: bool) -> None:
    subject = two_layers()
    asked = variant("bf16" if autocast else "fp32", grad=grad, autocast=autocast)
    assert reading.saved_activation_bytes(stepping(subject, asked), subject) == 0


def test_compiled_code_shows_what_it_saves_and_is_not_compiled_again() -> None:
    subject = two_layers()
    compiled = torch.compile(subject.module, backend="aot_eager", fullgraph=True)
    x = subject.inputs.args[0]
    compiled(x)
    before = counters["stats"]["unique_graphs"]
    assert before
    assert reading.saved_activation_bytes(lambda: compiled(x), subject) == 2 * HIDDEN_BYTES
    assert counters["stats"]["unique_graphs"] == before
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("function", "saved"),
    [
        (lambda x: x.exp(), 1),  # its output
        (lambda x: (y := x.exp()) * y, 1),  # one storage, saved three times
        (lambda x: x.exp().view(-1)[:10].square(), 1),  # a view keeps the whole storage
        (lambda x: x.exp().exp(), 2),
        (lambda x: x * x, 0),  # the input alone
        (lambda x: (x.exp().sum(), None)[1], 1),  # dropped with the call, but kept within it
    ],
    ids=["output", "shared", "view", "two", "input", "dropped"],
)
def test_saved_storages_count_once(function: Callable[[Tensor], Any], saved: int) -> None:
    x = torch.randn(10, 25, requires_grad=True)
    assert reading.saved_activation_bytes(*of(function, x)) == saved * 1000


def test_what_is_gone_before_the_next_is_saved_does_not_add_up() -> None:
    def one_at_a_time(x: Tensor) -> None:
        for _ in range(3):
            x.exp()

    x = torch.randn(250, requires_grad=True)
    assert reading.saved_activation_bytes(*of(one_at_a_time, x)) == 1000


def test_looking_at_saved_tensors_leaks_none() -> None:
    made: list[StorageWeakRef] = []

    def noted(x: Tensor) -> Tensor:
        y = x.exp()
        made.append(StorageWeakRef(y.untyped_storage()))
        return y

    reading.saved_activation_bytes(*of(noted, torch.randn(250, requires_grad=True)))
    assert [each.expired() for each in made] == [True]


# Autocast's copies


def copies(subject: Subject, **axes: Any) -> int | None:
    asked = variant("bf16", **axes)
    return reading.autocast_copy_bytes(stepping(subject, asked), subject.module, asked)


@pytest.mark.parametrize("grad", ["enabled", "no_grad"])
def test_autocast_keeps_copies_of_all_weights(grad: str) -> None:
    assert copies(two_layers(), grad=grad, autocast=True) == 2 * WEIGHTS


def test_autocast_keeps_no_copies_in_inference_mode() -> None:
    """The first layer's alone, which are the larger ones."""
    largest = 2 * (WIDTH * HIDDEN + HIDDEN)
    assert copies(two_layers(), grad="inference_mode", autocast=True) == largest


def test_weights_of_the_right_dtype_are_not_copied() -> None:
    subject = two_layers().cast(torch.bfloat16)
    assert copies(subject, autocast=True) == 0


def test_without_autocast_there_are_no_copies() -> None:
    assert copies(two_layers().cast(torch.bfloat16), autocast=False) == 0


def test_copies_in_compiled_code_are_unknown() -> None:
    subject, asked = two_layers(), variant("bf16", autocast=True, compile="default")
    assert reading.autocast_copy_bytes(lambda: None, subject.module, asked) is None


# Weights, inputs and what else is there


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
    assert reading.weights_bytes(module) == expected


def test_inputs_that_share_storage_count_once() -> None:
    x = torch.zeros(6, 5)
    assert reading.input_bytes(Inputs((x, x[2:], x.t()), {"mask": torch.zeros(7)})) == 148


def test_a_second_copy_of_the_model_is_caught() -> None:
    subject = two_layers()
    alone = CPU.resident_bytes()
    planted = copy.deepcopy(subject.module)
    assert CPU.resident_bytes() - alone == reading.weights_bytes(planted) == WEIGHTS * FLOAT


def test_what_a_compiler_only_imagines_takes_no_memory() -> None:
    before = CPU.resident_bytes()
    with FakeTensorMode():
        imagined = torch.empty(10**9)
    assert imagined.numel() == 10**9
    assert CPU.resident_bytes() == before


# All of it


def test_everything_about_two_layers() -> None:
    asked = variant(grad="enabled")
    found = reading.read(called_before(two_layers(), asked), asked, CPU)
    assert found == Memory(
        weights_bytes=WEIGHTS * FLOAT,
        input_bytes=BATCH * WIDTH * FLOAT,
        gradient_bytes=None,
        optimizer_state_bytes=None,
        resident_bytes=found.resident_bytes,  # other tests' tensors are in it
        saved_activation_bytes=2 * HIDDEN_BYTES,
        autocast_copy_bytes=0,
        step_peak_bytes=2 * HIDDEN_BYTES + OUT_BYTES,
        step_requested_bytes=2 * HIDDEN_BYTES + OUT_BYTES,
        step_left_bytes=0,
        allocations_per_call=3,
        releases_per_call=3,
        allocated_bytes_per_call=2 * HIDDEN_BYTES + OUT_BYTES,
        reserved_bytes=None,
        graph_pool_bytes=None,
        graph_pool_live_bytes=None,
        memory_note=None,
    )


def test_what_is_unknown_says_why() -> None:
    module = nn.Module()
    module.register_buffer("sparse", torch.eye(3).to_sparse())
    subject = Subject(module, Inputs((torch.zeros(2),), {}))
    asked = variant("bf16", autocast=True, compile="default")

    def nothing() -> None:
        return None

    found = reading.read(modes.Built(subject, module, nothing, nothing), asked, CPU)
    assert (found.weights_bytes, found.saved_activation_bytes, found.autocast_copy_bytes) == (
        None,
        None,
        None,
    )
    assert found.input_bytes == 8
    assert found.memory_note == f"{reading.NO_STORAGE}; {reading.COMPILED_CASTS}"


def test_a_model_that_counts_its_calls_ends_as_it_began() -> None:
    subject = Subject(Counts(in_place=True), Inputs((torch.randn(2, 4),), {}))
    before = copy.deepcopy(subject.module.state_dict())
    built = called_before(subject, variant())
    calls_made = copy.deepcopy(subject.module.state_dict())
    reading.read(built, variant(), CPU)
    after = subject.module.state_dict()
    assert all(torch.equal(after[name], calls_made[name]) for name in after)
    assert any(not torch.equal(before[name], calls_made[name]) for name in before)


# Setting up

MIB = 2**20


@pytest.mark.skipif(not allocators.CLEAR_REFS.exists(), reason="no /proc/self/clear_refs here")
def test_setup_peak_sees_what_was_gone_again() -> None:
    with CPU.watch_setup() as watched:
        torch.ones(64 * MIB, dtype=torch.uint8)
    assert 60 * MIB < watched.found.above_start_bytes < 100 * MIB
    with CPU.watch_setup() as watched:
        torch.ones(1 * MIB, dtype=torch.uint8)
    assert watched.found.above_start_bytes < 30 * MIB, "the peak before was not forgotten"


@pytest.mark.parametrize("missing", ["STATUS", "CLEAR_REFS"])
def test_setup_peak_is_unknown_where_the_system_does_not_tell(
    missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(allocators, missing, tmp_path / "no" / "such")
    with CPU.watch_setup() as watched:
        pass
    assert watched.found.above_start_bytes is None
    assert "No such file" in watched.found.note


def test_a_cpu_has_no_snapshots() -> None:
    assert not CPU.snapshots


# What CUDA's allocator says, made up


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
    found = cuda.since(before, after)
    assert found == Allocations(4, 3, 4 * 512, 3 * 512, 3 * 512, 3 * 500)
    assert found.left_bytes == 512


SEGMENTS = [
    {"device": device, "segment_pool_id": pool, "total_size": size, "allocated_size": live}
    for device, pool, size, live in [
        (0, (0, 0), 100, 90),  # of no graph
        (0, (0, 1), 20, 8),
        (0, (1, 0), 40, 0),
        (1, (0, 1), 70, 60),  # of another GPU
    ]
]


def on_cuda(backend: str, monkeypatch: pytest.MonkeyPatch) -> CudaAllocator:
    """As far as torch can be made to believe it where there is none."""
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: backend)
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda include_traces: SEGMENTS)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: 7)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda index: 5)
    return CudaAllocator(0)


def test_graph_pools_are_those_of_this_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 bytes in two of them a tensor holds 8."""
    found = on_cuda("native", monkeypatch).pools()
    assert found == Pools(reserved_bytes=7, graph_pool_bytes=60, graph_pool_live_bytes=8)


def test_an_allocator_that_counts_nothing_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = on_cuda("cudaMallocAsync", monkeypatch)
    asked = variant()
    found = reading.read(called_before(two_layers(), asked), asked, allocator)
    assert found == Memory(
        weights_bytes=WEIGHTS * FLOAT,
        input_bytes=BATCH * WIDTH * FLOAT,
        saved_activation_bytes=2 * HIDDEN_BYTES,
        autocast_copy_bytes=0,
        memory_note=cuda.UNREADABLE.format("cudaMallocAsync"),
    )
    with allocator.watch_setup() as watched:
        pass
    assert watched.found == Peak(None, found.memory_note)
    assert not allocator.snapshots
    assert on_cuda("native", monkeypatch).snapshots


def test_facts_travel_between_processes() -> None:
    facts = replace(Memory(), weights_bytes=3)
    assert pickle.loads(pickle.dumps(facts)) == facts

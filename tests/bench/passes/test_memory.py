"""Bytes worked out by hand against those of the memory pass, on the CPU's allocator."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from modescope.bench.devices import allocators, cuda_allocator
from modescope.bench.devices.allocators import Allocations, CpuAllocator
from modescope.bench.devices.cuda_allocator import CudaAllocator
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.model.subject import Built, Inputs, Subject
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL, TrainingPhase
from modescope.bench.passes import memory
from modescope.bench.records.cases import Training, Variant
from modescope.bench.records.columns.passes import Memory, Setup
from modescope.models import mlp
from tests.helpers import probe_models, trained_models
from tests.helpers.child_runs import findings_in_child
from tests.helpers.probe_models import WIDTH, case, model, smoke, variant
from tests.helpers.trained_models import EAGER, GRAPH, Graphs, built, subject

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = CpuAllocator()
FLOAT, HALF = 4, 2
ROWS, HIDDEN = probe_models.LAYERS_ROWS, probe_models.LAYERS_HIDDEN
HIDDEN_BYTES = ROWS * HIDDEN * FLOAT
INPUT_BYTES = OUT_BYTES = ROWS * WIDTH * FLOAT
WEIGHTS = (WIDTH * HIDDEN + HIDDEN) + (HIDDEN * WIDTH + WIDTH)  # elements of four parameters
AMP = variant("bf16", autocast=True)


def two_layers() -> Subject:
    module, args = probe_models.two_layers()
    return Subject(module, Inputs(args, {}))


def called_before(subject: Subject, asked: Variant) -> Built:
    built = modes.build(subject, asked, True, Cpu(), ONE_CALL)
    built.step()
    return built


def stepping(subject: Subject, asked: Variant) -> Step:
    return called_before(subject, asked).live


def of(function: Callable[[Tensor], Any], x: Tensor) -> tuple[Step, Subject]:
    """A step that applies `function` to its input, and its subject, which has no weights."""
    return lambda: function(x), Subject(nn.Identity(), Inputs((x,), {}))


# Allocations of a call

KEPT: list[Tensor] = []


def empty() -> Tensor:
    return torch.empty(1000, dtype=torch.uint8)


STATE = {"cache": empty()}


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (lambda: [None for _ in range(7) if empty() is None], Allocations(7, 7, 7000, 7000, 1000)),
        (lambda: KEPT.append(empty()), Allocations(1, 0, 1000, 0, 1000)),
        # the one before the first watched call was allocated unseen, so its release is unseen too
        (lambda: STATE.update(cache=empty()), Allocations(1, 1, 1000, 1000, 1000)),
    ],
    ids=["freed in turn", "kept", "replaced"],
)
def test_allocations_of_a_call(step: Step, found: Allocations) -> None:
    assert memory.steady_call(step, CPU) == found


def test_the_tally_of_changes_by_hand() -> None:
    assert allocators.tally([4, 2, -4, 8, -2]) == Allocations(3, 2, 14, 6, 10)
    assert allocators.tally([-5, 3]) == Allocations(1, 1, 3, 5, 0)  # never above where it began


# Saved activations


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
        (lambda x: x.detach().exp(), 0),
        (lambda x: (y := x.exp()) * y, 1),  # one storage, saved three times
        (lambda x: x.exp().view(-1)[:10].square(), 1),  # a view keeps the whole storage
        (lambda x: x.exp().exp(), 2),
        (lambda x: x * x, 0),  # only the input
        (lambda x: (x.exp().sum(), None)[1], 1),  # dropped with the call, but kept within it
        (lambda x: [None for _ in range(3) if x.exp() is None], 1),  # freed in turn
    ],
    ids=["no gradient", "shared", "view", "two", "input", "dropped", "in turn"],
)
def test_saved_storages_count_once(function: Callable[[Tensor], Any], saved: int) -> None:
    x = torch.randn(10, 25, requires_grad=True)
    assert memory.saved_activation_bytes(*of(function, x)) == saved * 1000


# Autocast's copies


@pytest.mark.parametrize(
    ("weights", "axes", "copies"),
    [
        (torch.float32, {"grad": "enabled", "autocast": True}, 2 * WEIGHTS),
        (torch.float32, {"grad": "no_grad", "autocast": True}, 2 * WEIGHTS),
        # only the copies of the first layer, the larger ones, exist at one time
        (torch.float32, {"grad": "inference_mode", "autocast": True}, 2 * HIDDEN * (WIDTH + 1)),
        (torch.bfloat16, {"autocast": True}, 0),
        (torch.bfloat16, {"autocast": False}, 0),
    ],
)
def test_autocast_keeps_copies_of_weights_of_another_dtype(
    weights: torch.dtype, axes: dict[str, Any], copies: int
) -> None:
    subject, asked = two_layers().cast(weights), variant("bf16", **axes)
    step = stepping(subject, asked)
    assert memory.autocast_copy_bytes(step, subject.module, asked) == copies


# Weights, inputs and other memory


def tied() -> nn.Module:
    one, other = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
    other.weight = one.weight
    return nn.Sequential(one, other)


def test_storages_count_once() -> None:
    module = tied()
    module.register_buffer("part", next(module.parameters()).detach()[:4])  # a view of the weight
    module.register_buffer("own", torch.zeros(3))
    assert memory.weights_bytes(module) == (8 * 8 + 3) * FLOAT
    x = torch.zeros(6, 5)
    assert memory.input_bytes(Inputs((x, x[2:], x.t()), {"mask": torch.zeros(7)})) == 148


# All columns


def test_unknown_memory_has_a_reason() -> None:
    module = nn.Module()
    module.register_buffer("sparse", torch.eye(3).to_sparse())
    subject = Subject(module, Inputs((torch.zeros(2),), {}))
    asked = variant("bf16", autocast=True, compile="default")

    def nothing() -> None:
        return None

    found = memory.read(Built(subject, module, nothing, nothing), asked, CPU)
    unknown = (found.weights_bytes, found.saved_activation_bytes, found.autocast_copy_bytes)
    assert unknown == (None, None, None)
    assert found.input_bytes == 8
    assert found.memory_note == f"{memory.NO_STORAGE}; {memory.COMPILED_CASTS}"


# A step of training


def layers() -> Subject:
    """Two of them, with targets and a loss."""
    return subject(probe_models.two_layers)


def trained(of: Subject, asked: Variant = EAGER, **options: Any) -> Memory:
    return memory.read(built(of, asked, **options), asked, CPU)


def test_two_layers_in_training() -> None:
    """GELU saves its input, the second layer GELU's output, the loss the model's output.

    The model's input and the targets exist anyway and are not counted.
    """
    found = trained(layers())
    assert found.saved_activation_bytes == 2 * HIDDEN_BYTES + OUT_BYTES
    assert found.weights_bytes == found.gradient_bytes == FLOAT * WEIGHTS
    assert found.input_bytes == INPUT_BYTES + OUT_BYTES
    assert (found.optimizer_state_bytes, found.step_left_bytes, found.memory_note) == (0, 0, None)


def test_casts_needed_for_backward_are_saved_activations() -> None:
    """Casts of the input and of the second weight; the loss casts the output back and saves that.

    The cast of the first weight is not needed, as the input has no gradient.
    """
    found = trained(layers(), AMP)
    activations = (2 * HIDDEN_BYTES + INPUT_BYTES) // 2 + OUT_BYTES
    assert found.saved_activation_bytes == activations + HALF * HIDDEN * WIDTH
    assert found.autocast_copy_bytes == HALF * WEIGHTS
    assert found.gradient_bytes == FLOAT * WEIGHTS


def test_gradients_are_of_trained_parameters_only() -> None:
    width = trained_models.WIDTH
    found = trained(subject(trained_models.frozen), optimizer="adamw")
    assert found.gradient_bytes == FLOAT * (width + width * width + width)
    moments = 2 * found.gradient_bytes
    assert found.optimizer_state_bytes == moments + 3 * FLOAT, "three step counts"
    assert trained(subject(trained_models.partly_used)).gradient_bytes == FLOAT * (
        width * width + width
    )


def test_recomputed_activations_are_not_kept() -> None:
    """Three layers: two with a GELU, each of them a child."""
    layer = FLOAT * 4 * 16
    of = subject(lambda: mlp.build(batch=4, width=16, depth=3))
    saved = {
        checkpoint: trained(of, checkpoint=checkpoint).saved_activation_bytes
        for checkpoint in ("none", "children", "model")
    }
    output = layer
    assert saved == {
        "none": 2 * 2 * layer + output,  # into and out of each GELU
        "children": 2 * layer + output,  # into each child but the first
        "model": output,
    }


class OfAGpu(CpuAllocator):
    def pools(self) -> dict[str, int]:
        return {"graph_pool_bytes": 70}


def test_activations_inside_graph_pools_are_unknown() -> None:
    options = Training(capture="forward_backward")
    made = modes.build(layers(), GRAPH, True, Graphs(), TrainingPhase(options))
    made.step()
    found = memory.read(made, GRAPH, OfAGpu())
    assert found.saved_activation_bytes is found.autocast_copy_bytes is None
    assert found.memory_note == memory.GRAPHED
    assert (found.gradient_bytes, found.graph_pool_bytes) == (FLOAT * WEIGHTS, 70)


def test_only_model_and_training_state_are_in_memory() -> None:
    """The check, the baseline and the copy of the starting state are freed."""
    asked = case(model(probe_models.two_layers), variant())
    asked = replace(asked, options=Training("adamw"))
    found = findings_in_child(asked, replace(smoke(), memory=True))
    state = FLOAT * (2 * WEIGHTS + 4)
    assert found.memory.optimizer_state_bytes == state
    assert found.memory.resident_bytes == 2 * FLOAT * WEIGHTS + INPUT_BYTES + OUT_BYTES + state


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
    assert 60 * MIB < watched.result.setup_peak_bytes < 100 * MIB
    with CPU.watch_setup() as watched:
        mapped_and_unmapped(1 * MIB)
    assert watched.result.setup_peak_bytes < 30 * MIB, "the peak before was not forgotten"


# Made-up statistics of CUDA's allocator


def test_cuda_statistics_become_allocations() -> None:
    """10 blocks are held at first; 4 more come and 3 go, 3 of them at the same time."""
    names = [f"allocation.all.{name}" for name in ("allocated", "freed")]
    names += [f"allocated_bytes.all.{name}" for name in ("allocated", "freed", "current", "peak")]
    before = dict(zip(names, (20, 10, 20 * 512, 10 * 512, 10 * 512, 10 * 512), strict=True))
    after = dict(zip(names, (24, 13, 24 * 512, 13 * 512, 11 * 512, 13 * 512), strict=True))
    found = cuda_allocator.changes_between(before, after)
    assert found == Allocations(4, 3, 4 * 512, 3 * 512, 3 * 512)


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
    assert found == {"reserved_bytes": 7, "graph_pool_bytes": 60, "graph_pool_live_bytes": 8}


def test_workspaces_are_what_dropping_them_frees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5 bytes 2 are left; without a function that drops them, nothing is known."""
    left = iter((5, 2))
    allocator = on_cuda("native", monkeypatch)
    assert allocator.workspace_bytes() is None, "this torch has no CUDA"
    dropped: list[bool] = []
    monkeypatch.setattr(
        torch._C, "_cuda_clearCublasWorkspaces", lambda: dropped.append(True), raising=False
    )
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda index: next(left))
    assert (allocator.workspace_bytes(), dropped) == (3, [True])
    assert on_cuda("cudaMallocAsync", monkeypatch).workspace_bytes() is None


def test_an_allocator_without_statistics_gives_null(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator, asked = on_cuda("cudaMallocAsync", monkeypatch), variant()
    found = memory.read(called_before(two_layers(), asked), asked, allocator)
    assert found.memory_note == cuda_allocator.UNREADABLE.format("cudaMallocAsync")
    unknown = (found.step_peak_bytes, found.resident_bytes, found.reserved_bytes)
    assert unknown == (None, None, None)
    assert found.weights_bytes == WEIGHTS * FLOAT
    with allocator.watch_setup() as watched:
        pass
    assert watched.result == Setup(None, found.memory_note)
    assert not allocator.snapshots
    assert on_cuda("native", monkeypatch).snapshots

"""Profiles of real steps on a CPU: kernels counted, files bounded, doubts raised."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._inductor import metrics
from torch._inductor.scheduler import BaseSchedulerNode

from modescope.bench.case.profiler import capture as capturing
from modescope.bench.case.profiler import facts
from modescope.bench.case.profiler.capture import (
    KEPT_STEPS,
    MAX_BYTES,
    capture,
    record_kernels,
    through_the_dispatcher,
)
from modescope.bench.case.profiler.profile import Profile, columns, flags
from modescope.bench.case.profiler.profiled_calls import MOST_TURNS, ProfiledCalls
from modescope.bench.case.profiler.traces import STEP, load
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.records.cases import CompileOptions, Model, Variant
from modescope.bench.records.columns import GeneratedCode
from modescope.bench.steps import modes
from modescope.bench.steps.building import build
from modescope.bench.steps.evidence import compilation_log, generated_code
from modescope.bench.steps.evidence.generated_code import Generated
from modescope.bench.steps.phases import ONE_CALL
from tests.helpers.probe_models import variant

LENGTHS = (4, 16, 64)
BATCH, WIDTH = 4, 24  # of no other test: the compiler's cache does not know bytes of all code
EAGER = variant(grad="inference_mode")
COMPILE = variant(grad="inference_mode", compile="default")
MLP = {"batch": 2, "width": 8, "depth": 2}
EXPECTED_S = 1e-4


@pytest.fixture(autouse=True, scope="module")
def _compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


def built(name: str, asked: Variant = EAGER, **shape: int) -> Step:
    torch.manual_seed(0)
    subject = build(Model(name, f"modescope.models.{name}:build"), shape)
    return modes.build(subject, asked, True, Cpu(), ONE_CALL).step


def chain(ops: int, asked: Variant = EAGER) -> Step:
    return built("pointwise", asked, batch=BATCH, width=WIDTH, ops=ops)


@lru_cache
def compiled(ops: int) -> tuple[Profile, Generated]:
    with generated_code.watch() as watch:
        step = record_kernels(lambda: chain(ops, COMPILE))
    assert watch.generated
    return profile(step), watch.generated


def profile(step: Step, path: Path | None = None, max_bytes: int = MAX_BYTES) -> Profile:
    return capture(step, Cpu(), path, EXPECTED_S, max_bytes)


@pytest.mark.parametrize("ops", LENGTHS)
def test_a_chain_of_pointwise_ops_is_as_many_kernels_in_eager(ops: int) -> None:
    seen = profile(chain(ops))
    assert [step.kernels for step in seen.trace.steps] == [ops] * MOST_TURNS
    assert [step.ops_top for step in seen.trace.steps] == [ops] * MOST_TURNS
    assert sum(heavy.count for heavy in seen.typical.heaviest_kernels) == ops
    assert flags(seen, None) == ()
    assert seen.notes == ()


@pytest.mark.full
@pytest.mark.parametrize("ops", LENGTHS)
def test_a_compiled_chain_is_one_kernel_and_no_operator(ops: int) -> None:
    seen, _ = compiled(ops)
    assert [step.kernels for step in seen.trace.steps] == [1] * MOST_TURNS
    assert [step.ops_top for step in seen.trace.steps] == [0] * MOST_TURNS
    (kernel,) = seen.typical.heaviest_kernels
    assert "cpp_fused" in kernel.name


@pytest.mark.full
def test_the_compiler_s_own_code_has_as_many_kernels_as_the_trace() -> None:
    _, generated = compiled(16)
    columns = generated.columns
    assert (generated.wrappers, columns.generated_kernels, columns.extern_calls) == (1, 1, 0)
    # floats of the input, as many of the output, and those of the scale
    assert columns.bytes_accessed == 4 * (2 * BATCH * WIDTH + WIDTH)


def test_operators_that_the_compiler_leaves_to_torch_are_named_once() -> None:
    with generated_code.watch() as watch:
        watch.code.append(
            "    buf0 = torch.ops.aten.linalg_inv_ex.default(arg0_1)\n"
            "    extern_kernels.mm(arg0_1, arg1_1, out=buf1)\n"
            "    torch.ops.aten.linalg_inv_ex.default(arg1_1)\n"
        )
    columns = watch.generated.columns
    assert json.loads(columns.fallback_kernels) == ["aten.linalg_inv_ex.default"]
    assert columns.extern_calls == 3


@pytest.mark.full
def test_code_from_the_compiler_s_cache_is_counted_like_new_code() -> None:
    _, first = compiled(16)
    with compilation_log.watch() as log, generated_code.watch() as watch:
        record_kernels(lambda: chain(16, COMPILE))
    found = log.columns
    assert (found.compiler_cache_hits, found.compiler_cache_misses) == (1, 0)
    assert watch.generated.columns == first.columns


@pytest.mark.full
def test_of_the_compilers_nodes_only_bytes_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other attributes would look up run times and keep the graphs alive."""
    estimated: list[object] = []
    monkeypatch.setattr(
        BaseSchedulerNode, "_get_estimated_runtime", lambda self: estimated.append(self)
    )
    torch.compiler.reset()
    with compilation_log.watch() as log, generated_code.watch() as watch:
        chain(5, COMPILE)()
    assert log.columns.compiler_cache_misses == 1, "code from the cache is not read"
    assert watch.generated.columns.bytes_accessed == 4 * (2 * BATCH * WIDTH + WIDTH)
    assert estimated == metrics.node_runtimes == metrics.nodes_num_elem == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("dynamic", "batch", "symbolic"),
    [
        (None, 4, 0),
        (True, 4, 1),
        (True, 1, 0),
    ],  # a size of 1 is a constant in the code, like those of weights
)
def test_symbolic_sizes_of_generated_code_are_counted(
    dynamic: bool | None, batch: int, symbolic: int
) -> None:
    torch.compiler.reset()
    asked = variant(grad="inference_mode", compile="default", options=CompileOptions(dynamic))
    with generated_code.watch() as watch:
        built("pointwise", asked, batch=batch, width=16, ops=4)()
    assert (watch.generated.wrappers, watch.generated.symbolic_sizes) == (1, symbolic)


def test_without_compiling_no_code_is_generated() -> None:
    with generated_code.watch() as watch:
        chain(4)()
    assert watch.generated == Generated(0, GeneratedCode(), None)


def test_a_matrix_product_is_one_kernel_however_it_is_composed() -> None:
    """linear -> addmm, which copies its bias first; gelu; linear -> addmm."""
    seen = profile(built("mlp", EAGER, **MLP)).typical
    assert (seen.kernels, seen.ops_top) == (3, 3)
    assert seen.ops_leaf > 3


@pytest.mark.full
def test_in_a_compiled_mlp_only_the_gelu_is_a_generated_kernel() -> None:
    """So a CPU shows no fusion of bias and GELU: each linear layer is one addmm, which adds the
    bias itself, and the GELU between them is a kernel of its own. On a GPU the bias joins the GELU.
    """
    with generated_code.watch() as watch:
        step = record_kernels(lambda: built("mlp", COMPILE, **MLP))
    seen = profile(step)
    columns = watch.generated.columns
    assert (columns.generated_kernels, columns.extern_calls) == (1, 2)
    assert (seen.typical.kernels, seen.typical.ops_top) == (3, 2)
    counts = {heavy.name: heavy.count for heavy in seen.typical.heaviest_kernels}
    assert counts.pop("aten::addmm") == 2
    ((name, count),) = counts.items()
    assert ("cpp_fused_gelu" in name, count) == (True, 1)


def test_kernels_of_a_backward_pass_are_seen() -> None:
    """y = w * x; the sum; then in backward: ones_like, and one multiplication for w's gradient."""
    weight, x = torch.rand(4, requires_grad=True), torch.rand(4)

    def step() -> None:
        weight.grad = None
        (weight * x).sum().backward()

    seen = profile(step)
    counts = {heavy.name: heavy.count for heavy in seen.typical.heaviest_kernels}
    assert counts == {"aten::mul": 2, "aten::sum": 1, "aten::ones_like": 1}


def test_a_saved_trace_loads_back_with_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "traces" / "run.json.gz"
    seen = profile(chain(4), path)
    read = facts.read(path)
    assert seen.saved_steps == len(read.steps) == KEPT_STEPS
    assert seen.typical in read.steps
    assert set(read.steps) <= set(seen.trace.steps)
    assert path.stat().st_size < MAX_BYTES
    ranges = [event for event in load(path)["traceEvents"] if event["name"] == STEP]
    assert [event["cat"] for event in ranges] == ["user_annotation"] * KEPT_STEPS
    assert [file.name for file in path.parent.iterdir()] == ["run.json.gz"]


def test_a_trace_too_large_keeps_fewer_steps(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.json.gz", tmp_path / "part.json.gz"
    profile(chain(64), whole)
    max_bytes = whole.stat().st_size * 3 // 5
    seen = profile(chain(64), path, max_bytes)
    assert path.stat().st_size <= max_bytes
    assert 1 <= seen.saved_steps < KEPT_STEPS
    kept = facts.read(path).steps
    assert len(kept) == seen.saved_steps
    assert seen.typical in kept
    (note,) = seen.notes
    assert note.startswith(f"{seen.saved_steps} of {KEPT_STEPS} steps fit into a trace file of ")


def test_a_trace_without_room_for_a_step_is_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    seen = profile(chain(4), path, max_bytes=100)
    assert list(tmp_path.iterdir()) == []
    assert seen.saved_steps == 0
    assert len(seen.trace.steps) == MOST_TURNS
    assert seen.notes == ("not even one step fits into a trace file of 0.0001 MB",)


def test_calls_between_profiled_ones_are_not_recorded() -> None:
    """Outside of the profiled calls, the trace has the one call that comes before all."""
    x = torch.rand(4)
    seen = profile(lambda: torch.sin(torch.cos(x)))
    assert seen.trace.left_out["elsewhere"] == 2
    assert len(seen.turns.unrecorded_s) == len(seen.trace.steps) == MOST_TURNS


def test_overhead_is_relative_to_the_calls_between() -> None:
    taken = ProfiledCalls((4.0, 9.0, 4.0), (1.0, 2.0, 1.0), (2.0, 3.0, 4.0))
    assert capturing._overhead(taken, 8.0) == 2.0
    assert capturing._overhead(replace(taken, unrecorded_s=None), 8.0) == 0.5
    assert capturing._overhead(replace(taken, unrecorded_s=None), 0.0) is None


def test_every_profiled_step_has_the_pace_around_it() -> None:
    seen = profile(chain(4))
    assert len(seen.turns.paces_s) == len(seen.trace.steps)
    assert min(seen.turns.paces_s) > 0
    found = columns(seen, launches=False)
    assert found.profiled_pace_s == seen.turns.paces_s[seen.place]
    assert found.profiled_latency_rounds_s == seen.turns.unrecorded_s
    assert found.kernels_s == found.profiled_kernels_rounds_s[seen.place]


def test_steps_that_do_different_things_are_noted() -> None:
    calls = count()
    x = torch.rand(4)

    def step() -> None:
        for _ in range(1 + next(calls) % 2):
            torch.sin(x)

    assert profile(step).notes == (
        "ops_top differs between steps: 1, 2",
        "kernels differs between steps: 1, 2",
    )


def _adding(x: torch.Tensor) -> torch.Tensor:
    return x + x


def _in_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.add(x.numpy(), x.numpy()))


@pytest.mark.parametrize("kernel", [_adding, _in_numpy])
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_operators_of_users_are_counted(
    kernel: Callable[[torch.Tensor], torch.Tensor], mode: str
) -> None:
    twice = torch.library.custom_op("modescope_test::twice", kernel, mutates_args=())
    twice.register_fake(torch.empty_like)
    x = torch.rand(4)

    def step() -> object:
        return twice(x)

    if mode == "compiled":
        step = torch.compile(step, backend="aot_eager")
    step()
    seen = profile(step)
    assert [heavy.name for heavy in seen.typical.heaviest_kernels] == ["modescope_test::twice"]
    assert (seen.typical.kernels, seen.typical.ops_top) == (1, 1)
    around = getattr(twice._opoverload, "_pyobj_dispatcher", None) is not None
    assert [note.endswith(": modescope_test::twice") for note in seen.notes] == [True] * around


def test_profiling_leaves_operators_unchanged() -> None:
    @torch.library.custom_op("modescope_test::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return 3 * x

    op: Any = thrice._opoverload

    def ways() -> tuple[bool, bool]:
        direct = getattr(op, "_pyobj_dispatcher", None) is not None
        return direct, op._op is getattr(op, "_cpp_dispatch_handle", op._op)

    def profiled_in_vain() -> None:
        with through_the_dispatcher() as names:
            assert ways() == (False, True)
            assert ("modescope_test::thrice" in names) == before[0]
            raise KeyError

    before = ways()
    with pytest.raises(KeyError):
        profiled_in_vain()
    assert ways() == before

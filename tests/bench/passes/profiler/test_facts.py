"""Traces written by hand in Kineto's format, with facts worked out by hand. Times in microseconds.

Fields are those of libkineto/src/output_json.cpp and CuptiActivity.cpp: device work has the device
as its process and the stream as its thread, and shares "correlation" with the call that caused it.
"""

from __future__ import annotations

from typing import Any

import pytest

from modescope.bench.passes.profiler import facts
from modescope.bench.passes.profiler.facts import Heavy, StepFacts
from modescope.bench.passes.profiler.operators import find_working
from modescope.bench.passes.profiler.traces import STEP

THREAD, BACKWARD_THREAD = 500, 501

Raw = dict[str, Any]


def interval(category: str, name: str, start: float, length: float, thread: int = THREAD) -> Raw:
    return {
        **{"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread},
        **{"ts": start, "dur": length, "args": {"External id": 1}},
    }


def step(start: float, length: float) -> Raw:
    return interval("user_annotation", STEP, start, length)


def op(name: str, start: float, length: float, thread: int = THREAD) -> Raw:
    return interval("cpu_op", name, start, length, thread)


def call(name: str, correlation: int, start: float, length: float = 2.0) -> Raw:
    """A call of the CUDA runtime (cuda...) or driver (cu...)."""
    category = "cuda_runtime" if name.startswith("cuda") else "cuda_driver"
    event = interval(category, name, start, length)
    event["args"] |= {"cbid": 211, "correlation": correlation}
    return event


def work(
    category: str, name: str, correlation: int, start: float, length: float, stream: int = 7
) -> Raw:
    event = interval(category, name, start, length, thread=stream)
    event["args"] |= {"device": 0, "context": 1, "stream": stream, "correlation": correlation}
    return event


def kernel(name: str, correlation: int, start: float, length: float, stream: int = 7) -> Raw:
    return work("kernel", name, correlation, start, length, stream)


def facts_of(*events: Raw, working: list[str] | None = None) -> tuple[StepFacts, ...]:
    return facts.read({"schemaVersion": 1, "traceEvents": list(events)}, working)


def only(*events: Raw, working: list[str] | None = None) -> StepFacts:
    (found,) = facts_of(*events, working=working)
    return found


def us(*values: float) -> Any:
    """Seconds, exact to a picosecond."""
    return pytest.approx(tuple(v * 1e-6 for v in values), abs=1e-12)


def at(seconds: float) -> Any:
    return pytest.approx(seconds * 1e-6, abs=1e-12)


def test_nested_operators_are_counted_at_the_top_and_at_the_leaves() -> None:
    """linear > (t > transpose, addmm > copy_), then relu; the compiler's range is no operator."""
    one = only(
        step(0, 100),
        op("Torch-Compiled Region: 0/0", 2, 90),
        op("aten::linear", 10, 50),
        op("aten::t", 12, 8),
        op("aten::transpose", 14, 4),
        op("aten::copy_", 25, 5),  # of two that start together the longer is the outer one
        op("aten::addmm", 25, 30),
        op("aten::relu", 60, 10),  # begins where linear ends
        op("aten::mul", 65, 20),  # an end was lost: it cannot be placed
    )
    assert (one.ops_top, one.ops_leaf) == (2, 3)
    assert one.leaf_ops_s == at(4 + 5 + 10)
    assert one.heaviest_ops == (
        Heavy("aten::addmm", 1, 25e-6),
        Heavy("aten::linear", 1, 12e-6),
        Heavy("aten::relu", 1, 10e-6),
        Heavy("aten::copy_", 1, 5e-6),
        Heavy("aten::t", 1, 4e-6),
        Heavy("aten::transpose", 1, 4e-6),
    )
    assert (one.guards_s, one.compiled_wrapper_s) == (None, None), "no lookup"


def test_a_call_of_compiled_code_is_lookups_the_python_around_graphs_and_graphs() -> None:
    """A model in two pieces: the second is looked up within the region of the first."""
    one = only(
        step(0, 200),
        op("TorchDynamo Cache Lookup", 1, 4),
        op("Torch-Compiled Region: 0/0", 6, 150),
        op("Pregraph bytecode", 8, 10),
        op("CompiledFunction", 20, 40),
        op("## Call CompiledFxGraph abc ##", 25, 30),
        op("aten::relu", 70, 5),
        op("TorchDynamo Cache Lookup", 80, 3),
        op("Torch-Compiled Region: 1/0", 85, 60),
        op("## Call CompiledFxGraph def ##", 90, 50),
    )
    assert one.guards_s == at(4 + 3)
    outer, inner = 150 - (10 + 40 + 5 + 3 + 60), 60 - 50
    assert one.compiled_wrapper_s == at(outer + 10 + (40 - 30) + inner)


def test_kernels_of_a_cpu_are_the_outermost_operators_that_work() -> None:
    """The copy inside of addmm is part of it, the one inside of `to` is a kernel of its own.

    Autograd works on its own thread while the caller waits.
    """
    one = only(
        step(0, 100),
        op("aten::linear", 10, 50),
        op("aten::t", 12, 8),
        op("aten::addmm", 25, 30),
        op("aten::copy_", 26, 5),
        op("aten::copy_", 50, 20, thread=BACKWARD_THREAD),
        op("aten::to", 75, 8),
        op("aten::copy_", 76, 6),
        op("aten::empty", 85, 1),
        op("graph_0_cpp_fused_gelu_0", 88, 10),
        working=["aten::addmm", "aten::copy_"],
    )
    assert one.kernels == 4
    assert (one.kernels_s, one.busy_s) == (at(30 + 20 + 6 + 10), at(45 + 6 + 10))
    counts = {heavy.name: heavy.count for heavy in one.heaviest_kernels}
    assert counts == {"aten::addmm": 1, "aten::copy_": 2, "graph_0_cpp_fused_gelu_0": 1}
    assert (one.ops_top, one.ops_leaf) == (4, 5)  # the fused kernel is not dispatched


def test_operators_and_fused_kernels_are_distinguished_by_name() -> None:
    operators = ["aten::mul", "aten::mul.Tensor", "mylib::op", "mkldnn::_linear_pointwise"]
    fused = ["graph_0_cpp_fused_add_mul_sin_0", "cpp_fused_mul_0"]
    ranges = ["MulBackward0", "autograd::engine::evaluate_function: MulBackward0"]
    ranges += ["torch::autograd::AccumulateGrad", "## Call CompiledFxGraph fabc ##"]
    names = enumerate(operators + fused + ranges)
    one = only(step(0, 100), *(op(name, 9 * at, 5) for at, name in names), working=[])
    assert (one.ops_top, one.ops_leaf, one.kernels) == (4, 4, 2)
    assert [heavy.name for heavy in one.heaviest_ops] == operators
    assert [heavy.name for heavy in one.heaviest_kernels] == fused


def test_work_belongs_to_the_step_that_launched_it() -> None:
    """Both kernels run after the first step's range; the second one within the next step's.

    What lies outside of all steps belongs to none.
    """
    first, second = facts_of(
        op("aten::mul", -9, 2),
        call("cudaLaunchKernel", 9, -4),
        step(0, 20),
        op("aten::mul", 2, 2),
        call("cudaLaunchKernel", 1, 5),
        call("cudaLaunchKernel", 2, 10),
        op("aten::mul", 20, 2),
        step(60, 30),
        call("cudaLaunchKernel", 3, 62),
        kernel("before", 9, 3, 4),
        kernel("a", 1, 25, 10),
        kernel("b", 2, 40, 25),
        kernel("a", 3, 70, 10),
    )
    assert (first.kernels, first.launches, second.kernels, second.launches) == (2, 2, 1, 1)
    assert (first.ops_top, second.ops_top) == (1, 0)
    assert (first.span_s, first.busy_s) == (at(65), at(35))
    assert first.launch_delays_s == us(20, 30)
    assert (second.span_s, second.busy_s) == (at(30), at(10))
    assert first.heaviest_kernels == (Heavy("b", 1, 25e-6), Heavy("a", 1, 10e-6))
    assert (first.lost, second.lost) == (0, 0)


def test_a_replayed_graph_is_one_launch_of_many_kernels() -> None:
    """All kernels of a replay carry its correlation; the delay is that of the first.

    Copies and fills are no kernels. Streams that overlap are busy once.
    """
    one = only(
        step(0, 50),
        call("cudaMemcpyAsync", 8, 1),
        work("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 8, 4, 2),
        call("cudaMemsetAsync", 7, 2),
        work("gpu_memset", "Memset (Device)", 7, 6, 1),
        call("cudaGraphLaunch", 9, 5, 20),
        kernel("a", 9, 12, 3),
        kernel("b", 9, 16, 3),
        kernel("c", 9, 17, 3, stream=9),
    )
    assert (one.kernels, one.copies, one.fills) == (3, 1, 1)
    assert (one.launches, one.graph_launches) == (0, 1)
    assert one.launch_delays_s == us(3, 4, 7)
    assert (one.kernels_s, one.busy_s) == (at(9), at(2 + 1 + 3 + 4))
    assert {heavy.name for heavy in one.heaviest_kernels} == {"a", "b", "c"}


def test_launches_are_recognised_by_name_and_count_once() -> None:
    """The first is reported by the runtime and by the driver."""
    kernels = ["cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel"]
    kernels += ["cuLaunchKernel", "cuLaunchKernelEx"]
    graphs = ["cudaGraphLaunch", "cuGraphLaunch"]
    others = ["cudaGraphInstantiate", "cudaLaunchHostFunc", "cudaMemcpyAsync"]
    calls = [call(name, n, n) for n, name in enumerate([*kernels, *graphs, *others], start=1)]
    works = [kernel("a", n, 20 + n, 1) for n, _ in enumerate(calls, start=1)]
    one = only(step(0, 50), *calls, call("cuLaunchKernel", 1, 1.5), *works)
    assert (one.launches, one.graph_launches) == (len(kernels), len(graphs))
    assert one.launch_delays_s == us(*[20.0] * len(calls))


def test_dropped_and_unfinished_records_are_left_out() -> None:
    """Kernel 1 has neither start nor length, 2 is missing, and 3 has no launch.

    Kineto ends what is unfinished with the recording, and marks it.
    """
    open_op, open_step = op("aten::mul", 40, 60), step(60, 40)
    open_op["args"]["finished"] = open_step["args"]["finished"] = False
    whole = op("aten::mul", 10, 5)
    one = only(
        step(0, 50),
        call("cudaLaunchKernel", 1, 2),
        call("cudaGraphLaunch", 2, 5),
        kernel("a", 1, 0, 0),
        kernel("b", 3, 20, 5),
        *(open_op, open_step, whole),
        *(whole | {"ph": "s"}, whole | {"ph": "M"}, whole | {"cat": "gpu_user_annotation"}),
    )
    assert (one.launches, one.graph_launches, one.kernels, one.lost) == (1, 1, 0, 2)
    assert one.ops_top == 1


def test_nanoseconds_survive_the_size_of_a_real_clock() -> None:
    """Kineto counts from the start of a quarter: microseconds of 13 digits and three decimals.

    0.029 * 1000 is less than 29 in binary arithmetic.
    """
    origin = 4306560125996.9
    one = only(
        step(origin, 0.058),
        op("aten::mul", origin + 0.003, 0.017),
        op("aten::add", origin + 0.020, 0.029),
    )
    assert one.ops_top == 2
    assert one.span_s == pytest.approx(58e-9, abs=1e-15)
    assert one.leaf_ops_s == pytest.approx(46e-9, abs=1e-15)


WORKING = (
    *("mul", "addmm", "native_layer_norm", "_scaled_dot_product_flash_attention_for_cpu"),
    *("cat", "embedding", "copy_", "_to_copy", "clone", "zero_", "zeros", "_foreach_add_"),
)
IDLE = (
    *("view", "t", "transpose", "as_strided", "detach", "_reshape_alias"),
    *("_unsafe_view", "unsafe_split", "split", "unbind", "alias", "lift_fresh"),
    *("linear", "matmul", "layer_norm", "scaled_dot_product_attention", "to", "reshape"),
    *("contiguous", "dropout", "resolve_conj", "requires_grad_"),
    *("empty", "empty_like", "new_empty", "resize_", "set_", "t_", "detach_"),
    *("item", "_local_scalar_dense", "is_nonzero", "record_stream"),
)


def test_operators_that_make_or_write_a_tensor_work_and_views_and_composites_do_not() -> None:
    others = ["MulBackward0", "torch::autograd::AccumulateGrad", "graph_0_cpp_fused_0", "no::such"]
    working = [*(f"aten::{name}" for name in WORKING), "mkldnn::_linear_pointwise"]
    assert find_working([*working, *(f"aten::{name}" for name in IDLE), *others]) == sorted(working)

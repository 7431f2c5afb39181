"""Which operators do work, by torch's own registry."""

from __future__ import annotations

import pytest

from modescope.bench.case.profiler.operators import find_working


@pytest.mark.parametrize(
    "names",
    [
        ["mul", "sin", "add", "addmm", "bmm", "native_layer_norm", "gelu"],
        ["_scaled_dot_product_flash_attention_for_cpu", "cat", "sum", "mean", "embedding"],
        ["copy_", "_to_copy", "clone", "fill_", "zero_", "zeros", "add_", "_foreach_add_"],
    ],
    ids=["compute", "from others", "write"],
)
def test_operators_that_make_or_write_a_tensor_work(names: list[str]) -> None:
    assert find_working(f"aten::{name}" for name in names) == sorted(
        f"aten::{name}" for name in names
    )


@pytest.mark.parametrize(
    "names",
    [
        ["view", "t", "transpose", "as_strided", "expand", "slice", "detach", "_reshape_alias"],
        ["_unsafe_view", "unsafe_split", "split", "unbind", "alias", "lift_fresh"],
        ["linear", "matmul", "layer_norm", "scaled_dot_product_attention", "to", "reshape"],
        ["contiguous", "dropout", "resolve_conj", "requires_grad_"],
        ["empty", "empty_like", "empty_strided", "new_empty", "resize_", "set_", "t_", "detach_"],
        ["item", "_local_scalar_dense", "is_nonzero", "record_stream"],
    ],
    ids=["views", "more views", "composites", "more composites", "memory", "no tensor"],
)
def test_operators_that_only_make_views_do_not_work(names: list[str]) -> None:
    assert find_working(f"aten::{name}" for name in names) == []


def test_operators_of_other_libraries_are_known() -> None:
    assert find_working(["mkldnn::_linear_pointwise"]) == ["mkldnn::_linear_pointwise"]


def test_names_that_are_not_operators_do_not_work() -> None:
    names = ["MulBackward0", "torch::autograd::AccumulateGrad", "graph_0_cpp_fused_0", "no::such"]
    assert find_working(names) == []

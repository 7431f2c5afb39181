"""Which operators do work, by torch's own registry."""

from __future__ import annotations

from modescope.bench.case.profiler.operators import find_working

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

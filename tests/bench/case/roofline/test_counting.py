"""FLOPs and bytes of a call worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from modescope.bench.case.roofline import counting
from modescope.bench.devices.devices import Cpu
from modescope.bench.records.columns import WorkCounts
from modescope.bench.steps import modes
from modescope.bench.steps.phases import ONE_CALL
from modescope.bench.steps.subject import Inputs, Subject
from modescope.models import transformer
from tests.helpers.probe_models import Counts, variant

FLOAT = 4


def counted(module: nn.Module, *inputs: Tensor, **axes: Any) -> WorkCounts:
    subject = Subject(module, Inputs(inputs, {}))
    axes = {"grad": "enabled", **axes}
    asked = variant("bf16" if axes.get("autocast") else "fp32", **axes)
    return counting.count(modes.build(subject, asked, True, Cpu(), ONE_CALL))


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


GRAD = ("enabled", "no_grad", "inference_mode")


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("grad", GRAD)
def test_linear_layer(grad: str, autocast: bool) -> None:
    batch, inner, outer = 8, 16, 32
    found = counted(
        nn.Linear(inner, outer), torch.randn(batch, inner), grad=grad, autocast=autocast
    )
    output_bytes = batch * outer * (2 if autocast else FLOAT)
    assert found.flops == 2 * batch * inner * outer
    assert found.least_bytes == (batch * inner + inner * outer + outer) * FLOAT + output_bytes
    assert found.work_note is None


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("grad", GRAD)
def test_attention(grad: str, is_causal: bool) -> None:
    """Queries times keys, and their weights times values: two products of 2 x S x S x D each."""
    batch, heads, seq, width = 2, 3, 16, 8
    parts = [torch.randn(batch, heads, seq, width) for _ in range(3)]
    attend = Calls(lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=is_causal))
    found = counted(attend, *parts, grad=grad)
    assert found.flops == batch * heads * 2 * (2 * seq * seq * width)
    assert found.least_bytes == 4 * batch * heads * seq * width * FLOAT


def test_transformer_block() -> None:
    batch, seq, width, heads = 2, 16, 64, 4
    module, inputs = transformer.build(batch, seq, width, heads)
    found = counted(module, *inputs)
    tokens = batch * seq
    products = 2 * tokens * width * (3 * width + width + 4 * width + 4 * width)
    attention = 4 * batch * seq * seq * width  # all heads together are as wide as the model
    weights = sum(weight.numel() for weight in module.parameters())
    assert found.flops == products + attention
    assert found.least_bytes == (weights + 2 * tokens * width) * FLOAT
    assert found.work_note is None


@pytest.mark.parametrize(
    ("function", "shapes", "flops"),
    [
        (torch.mv, [(3, 5), (5,)], 2 * 3 * 5),
        (torch.addmv, [(3,), (3, 5), (5,)], 2 * 3 * 5),
        (torch.dot, [(5,), (5,)], 2 * 5),
        (torch.bmm, [(2, 3, 5), (2, 5, 7)], 2 * 2 * 3 * 5 * 7),
        (torch.add, [(3, 5), (3, 5)], 0),
    ],
    ids=["mv", "addmv", "dot", "bmm", "pointwise"],
)
def test_products(function: Callable[..., Tensor], shapes: list[tuple[int]], flops: int) -> None:
    assert counted(Calls(function), *map(torch.randn, shapes)).flops == flops


@pytest.mark.parametrize(
    ("function", "floats"),
    [
        (lambda x: x + 1, 20 + 20),
        (
            lambda x: (x + 1) * x * 2,
            20 + 20,
        ),  # inputs are read once, intermediate results are not counted
        (lambda x: x[:2] + 1, 10 + 10),  # half of it is never read
        (lambda x: x.t(), 0),  # a view moves nothing
        (lambda x: x[:1].expand(4, 5) + 1, 5 + 20),
        (lambda x: (y := x + 1, y.t(), y[0]), 20 + 20),  # outputs that share their storage
        (lambda x: x.sum(), 20 + 1),
        (lambda x: torch.ones(7), 7),
        (lambda x: {"a": x + 1, "b": [x.sum(), None]}, 20 + 20 + 1),
        (lambda x: (x + 1)[:1], 20 + 5),  # the rest of the storage is not part of the output
    ],
    ids=[
        *("once", "chain", "half", "view", "expanded", "shared", "sum", "made", "nested", "slice"),
    ],
)
def test_least_bytes(function: Callable[[Tensor], Any], floats: int) -> None:
    assert counted(Calls(function), torch.randn(4, 5)).least_bytes == floats * FLOAT


@pytest.mark.parametrize("grad", GRAD)
@pytest.mark.parametrize(
    ("function", "floats"),
    [
        (lambda x: x + 1, 20 + 20),
        (lambda x: (x + 1) * x * 2, (20 + 20) + (20 + 20 + 20) + (20 + 20)),
        (lambda x: x * x, 20 + 20),  # one argument given twice is read once
        (lambda x: (x + 1).view(-1)[5:].reshape(3, 5), 20 + 20),  # views move nothing
        (lambda x: x[:2] + 1, 10 + 10),
        (lambda x: x[:1].expand(4, 5) + 1, 5 + 20),
        (lambda x: x.t().contiguous(), 20 + 20),
        (lambda x: x.clone().add_(1), (20 + 20) + (20 + 20)),
        (lambda x: torch._foreach_add_([x.clone()], 1), (20 + 20) + (20 + 20)),  # returns nothing
        (lambda x: torch.empty(4, 5).copy_(x), 20 + 20),  # overwritten memory is not read
        (lambda x: torch.add(x, 1, out=torch.empty(4, 5)), 20 + 20),
        (lambda x: torch.zeros_like(x), 20),
        (lambda x: x.sum(), 20 + 1),
        (lambda x: torch.matmul(x.view(2, 2, 5), torch.ones(5, 3)), 15 + (20 + 15 + 12)),
    ],
    ids=[
        *("once", "chain", "squared", "views", "half", "expanded", "transposed", "in place"),
        *("list", "copied", "out", "made", "sum", "product"),
    ],
)
def test_eager_bytes(function: Callable[[Tensor], Any], floats: int, grad: str) -> None:
    """Arguments and results of each operator, one after the other."""
    found = counted(Calls(function), torch.randn(4, 5), grad=grad)
    assert found.eager_bytes == floats * FLOAT


def test_a_lookup_reads_no_more_than_it_returns() -> None:
    found = counted(nn.Embedding(1000, 8), torch.tensor([1, 2, 3]))
    assert found.flops == 0
    assert found.least_bytes == found.eager_bytes == 3 * 8 + 2 * (3 * 8 * FLOAT)


def test_a_bag_reads_the_rows_that_it_adds() -> None:
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    found = counted(nn.EmbeddingBag(1000, 8, mode="sum"), ids)
    assert found.flops == 0
    rows, result = 6 * 8 * FLOAT, 2 * 8 * FLOAT
    assert rows + result <= found.least_bytes < found.eager_bytes < 2 * (rows + result)


@pytest.mark.parametrize(
    "write",
    [
        lambda cache, x: cache.index_copy_(0, torch.tensor([7]), x),
        lambda cache, x: cache.scatter_(0, torch.full((1, 5), 7), x),
        lambda cache, x: cache.index_put_((torch.tensor([7]),), x),
    ],
    ids=["index_copy", "scatter", "index_put"],
)
def test_an_entry_of_a_cache_is_written_and_the_rest_neither_read_nor_written(
    write: Callable[[Tensor, Tensor], Tensor],
) -> None:
    cache = torch.zeros(1000, 5)
    found = counted(Calls(lambda x: write(cache, x).sum()), torch.randn(1, 5))
    whole, entry = 5000 * FLOAT, 5 * FLOAT
    assert whole < found.eager_bytes < whole + 2 * entry + 100  # the sum reads all of it


def test_tied_weights_are_read_once_and_unused_ones_never() -> None:
    module = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    module[1].weight = module[0].weight
    module.register_parameter("unused", nn.Parameter(torch.zeros(1000)))
    found = counted(module, torch.randn(1, 8))
    assert found.flops == 2 * (2 * 8 * 8)
    assert found.least_bytes == (8 * 8 + 8 + 8) * FLOAT
    assert found.eager_bytes == 2 * (8 * 8 + 8 + 8) * FLOAT, "eager reads them twice"


def test_operators_without_a_formula_leave_flops_unknown() -> None:
    found = counted(nn.LSTM(4, 4), torch.randn(3, 1, 4))
    assert found.flops is None
    assert "the FLOPs of these operators are unknown: aten." in found.work_note
    assert "rnn" in found.work_note


def test_operators_of_other_libraries_leave_flops_unknown() -> None:
    @torch.library.custom_op("modescope_test::doubled", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return x + x

    found = counted(Calls(doubled), torch.randn(5))
    assert found.flops is None
    assert found.work_note.endswith("are unknown: modescope_test.doubled")
    assert found.least_bytes == found.eager_bytes == 10 * FLOAT


def test_a_call_that_cannot_be_counted_has_a_reason() -> None:
    found = counted(Calls(lambda x: x.to_sparse()), torch.eye(3))
    assert (found.flops, found.least_bytes, found.eager_bytes) == (None, None, None)
    assert found.work_note.startswith("torch cannot count this call: NotImplementedError")


def test_counting_restores_buffers() -> None:
    module = Counts(in_place=True)
    counted(module, torch.randn(2, 4))
    assert module.calls == 1

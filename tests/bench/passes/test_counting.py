"""FLOPs and bytes of a call worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from modescope.bench.devices.devices import Cpu
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.passes import counting
from modescope.bench.records.columns.passes import WorkCounts
from modescope.models import mlp
from tests.helpers import trained_models
from tests.helpers.probe_models import Applies, variant
from tests.helpers.trained_models import EAGER, LEARNERS, built, subject
from tests.helpers.unusual_models import root

pytestmark = pytest.mark.usefixtures("one_thread")

FLOAT = 4


def counted(module: nn.Module, *inputs: Tensor, autocast: bool = False) -> WorkCounts:
    asked = variant("bf16" if autocast else "fp32", autocast=autocast)
    subject = Subject(module, Inputs(inputs, {}))
    return counting.count(modes.build(subject, asked, True, Cpu(), ONE_CALL))


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


@pytest.mark.parametrize("autocast", [False, True])
def test_a_linear_layer(autocast: bool) -> None:
    batch, inner, outer = 8, 16, 32
    found = counted(nn.Linear(inner, outer), torch.randn(batch, inner), autocast=autocast)
    output_bytes = batch * outer * (2 if autocast else FLOAT)
    assert found.flops == 2 * batch * inner * outer
    assert found.least_bytes == (batch * inner + inner * outer + outer) * FLOAT + output_bytes
    assert found.work_note is None


@pytest.mark.parametrize(
    ("function", "shapes", "flops"),
    [
        (torch.mv, [(3, 5), (5,)], 2 * 3 * 5),
        (torch.addmv, [(3,), (3, 5), (5,)], 2 * 3 * 5),
        (torch.dot, [(5,), (5,)], 2 * 5),
        (torch.add, [(3, 5), (3, 5)], 0),
    ],
    ids=["mv", "addmv", "dot", "pointwise"],
)
def test_products(function: Callable[..., Tensor], shapes: list[tuple[int]], flops: int) -> None:
    assert counted(Calls(function), *map(torch.randn, shapes)).flops == flops


@pytest.mark.parametrize(
    ("function", "least", "eager"),
    [
        (lambda x: x + 1, 20 + 20, 20 + 20),
        # inputs are read once, intermediate results are not counted
        (lambda x: (x + 1) * x * 2, 20 + 20, (20 + 20) + (20 + 20 + 20) + (20 + 20)),
        (lambda x: x * x, 20 + 20, 20 + 20),  # one argument given twice is read once
        (lambda x: x[:2] + 1, 10 + 10, 10 + 10),  # half of it is never read
        (lambda x: x.t(), 0, 0),  # a view moves nothing
        (lambda x: x[:1].expand(4, 5) + 1, 5 + 20, 5 + 20),
        (lambda x: (y := x + 1, y.t(), y[0]), 20 + 20, 20 + 20),  # outputs share their storage
        (lambda x: {"a": x + 1, "b": [x.sum(), None]}, 20 + 20 + 1, (20 + 20) + (20 + 1)),
        (lambda x: SimpleNamespace(a=x + 1), 20 + 20, 20 + 20),
        (lambda x: (x + 1)[:1], 20 + 5, 20 + 20),  # the rest of the storage is not returned
        (lambda x: x.clone().add_(1), 20 + 20, (20 + 20) + (20 + 20)),
        (lambda x: torch._foreach_add_([x.clone()], 1), 20 + 20, (20 + 20) + (20 + 20)),
        (lambda x: torch.empty(4, 5).copy_(x), 20 + 20, 20 + 20),  # what is there is not read
        (lambda x: torch.add(x, 1, out=torch.empty(4, 5)), 20 + 20, 20 + 20),
        (lambda x: torch.zeros_like(x), 20, 20),
        (lambda x: torch.matmul(x.view(2, 2, 5), torch.ones(5, 3)), 20 + 12, 15 + 20 + 15 + 12),
    ],
    ids=[
        *("once", "chain", "squared", "half", "view", "expanded", "shared", "nested"),
        *("object", "slice"),
        *("in place", "list", "copied", "out", "made", "product"),
    ],
)
def test_bytes(function: Callable[[Tensor], Any], least: int, eager: int) -> None:
    """Arguments and results of each operator in eager, one after the other; and the least."""
    found = counted(Calls(function), torch.randn(4, 5))
    assert (found.least_bytes, found.eager_bytes) == (least * FLOAT, eager * FLOAT)


def test_a_lookup_reads_no_more_than_it_returns_and_a_bag_the_rows_that_it_adds() -> None:
    found = counted(nn.Embedding(1000, 8), torch.tensor([1, 2, 3]))
    assert found.flops == 0
    assert found.least_bytes == found.eager_bytes == 3 * 8 + 2 * (3 * 8 * FLOAT)
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


def test_operators_without_a_formula_and_of_other_libraries_leave_flops_unknown() -> None:
    @torch.library.custom_op("modescope_test::doubled", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return x + x

    found = counted(Calls(doubled), torch.randn(5))
    assert found.flops is None
    assert found.work_note.endswith("are unknown: modescope_test.doubled")
    assert found.least_bytes == found.eager_bytes == 10 * FLOAT
    found = counted(nn.LSTM(4, 4), torch.randn(3, 1, 4))
    assert found.flops is None
    assert "rnn" in found.work_note


def test_a_call_that_cannot_be_counted_has_a_reason() -> None:
    found = counted(Calls(lambda x: x.to_sparse()), torch.eye(3))
    assert (found.flops, found.least_bytes, found.eager_bytes) == (None, None, None)
    assert found.work_note.startswith("torch cannot count this call: NotImplementedError")


def small_results() -> Any:
    module = nn.Linear(4, 4, bias=False)
    nn.init.constant_(module.weight, 1e-30)
    return module, (torch.full((2, 4), 1e-10),)


@pytest.mark.parametrize(
    ("build", "shares"),
    [
        (lambda: root(1e-39), {"power": 1.0}),
        (lambda: root(1e-37), {"power": pytest.approx(0.1, abs=0.1)}),
        (small_results, {"results of aten.mm": 1.0}),
    ],
)
def test_subnormal_weights_and_results_are_found(build: Any, shares: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module, args = build()
    assert json.loads(counted(module, *args).subnormal or "{}") == shares


# A step of training


def worked(build: trained_models.Build, asked: Any = EAGER, **options: Any) -> WorkCounts:
    loss = options.get("loss", "mse")
    return counting.count(built(subject(build, loss), asked, **options))


ROWS, WIDTH, DEPTH = 8, 16, 3
OF_LAYER = 2 * ROWS * WIDTH * WIDTH
WEIGHTS = DEPTH * (WIDTH * WIDTH + WIDTH)
BATCH = 2 * ROWS * WIDTH  # inputs and targets


def layers() -> Any:
    return mlp.build(ROWS, WIDTH, DEPTH)


def test_an_mlp_costs_three_times_its_forward_less_one_gradient() -> None:
    """Each layer: forward, the gradient of its weight, and of its input but for the first.

    What is recomputed is counted again: all that backward needs, so not the last product.
    """
    found = worked(layers, variant("bf16", autocast=True), optimizer="adamw")
    usual = (3 * DEPTH - 1) * OF_LAYER
    assert (found.flops, found.work_note) == (usual, None)
    assert worked(layers, checkpoint="model").flops == usual + (DEPTH - 1) * OF_LAYER


@pytest.mark.parametrize("implementation", ["foreach", "fused"])
@pytest.mark.parametrize(("optimizer", "kept"), [("sgd", 0), ("adamw", 2 * WEIGHTS + 2 * DEPTH)])
def test_trained_parameters_are_read_and_written(
    optimizer: str, kept: int, implementation: str
) -> None:
    """So are the optimizer's moments, and the step count of each parameter."""
    found = worked(layers, optimizer=optimizer, implementation=implementation)
    assert found.least_bytes == FLOAT * (BATCH + 2 * (WEIGHTS + kept) + 1)
    assert found.eager_bytes > found.least_bytes


@pytest.mark.parametrize("causal", [False, True])
def test_training_attention(causal: bool) -> None:
    """Seven products, of causal attention for the pairs of a query and a key before it only."""
    batch, heads, seq, width = 2, 3, 8, 4

    def attend(weight: Tensor, x: Tensor) -> dict[str, Tensor]:
        y = x * weight
        return {"loss": scaled_dot_product_attention(y, y, y, is_causal=causal).sum()}

    found = worked(
        lambda: (Applies(attend), (torch.randn(batch, heads, seq, width),)), loss="output"
    )
    pairs = seq * (seq + 1) // 2 if causal else seq * seq
    assert found.flops == 7 * 2 * batch * heads * pairs * width


@pytest.mark.parametrize(
    ("queries", "keys", "pairs"), [(8, 8, 36), (3, 8, 6), (8, 3, 6 + 5 * 3), (0, 8, 0)]
)
@pytest.mark.parametrize("backend", ["flash", "efficient", "cudnn"])
def test_causal_attention_of_a_gpu_counts_what_is_not_masked(
    backend: str, queries: int, keys: int, pairs: int
) -> None:
    operator = getattr(torch.ops.aten, f"_scaled_dot_product_{backend}_attention")
    named = [each.name for each in operator.default._schema.arguments]
    shapes = {"query": (2, 3, queries, 4), "key": (2, 3, keys, 4), "value": (2, 3, keys, 4)}
    given = [{**shapes, "is_causal": True}.get(name) for name in named]
    products = 2 * 2 * 2 * 3 * 4  # two of them, a product and a sum each
    assert counting.FORMULAS[operator](*given) == products * pairs
    masked = [False if name == "is_causal" else one for name, one in zip(named, given, strict=True)]
    assert counting.FORMULAS[operator](*masked) == products * queries * keys
    assert counting.FORMULAS[operator](*given[:3], is_causal=True) == products * pairs


@pytest.mark.parametrize("name", LEARNERS)
def test_work_of_built_in_models_is_fully_known(name: str) -> None:
    assert worked(LEARNERS[name], optimizer="adamw").work_note is None


def test_parameters_without_a_gradient_are_not_written() -> None:
    width, rows = trained_models.WIDTH, trained_models.ROWS
    weights = width * width + width
    assert worked(trained_models.partly_used).least_bytes == FLOAT * (
        2 * rows * width + 2 * weights + 1
    )

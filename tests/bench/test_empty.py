"""The call on an empty batch: all of the dispatch, none of the work, and nothing left behind."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench import empty, evidence, modes
from bench.devices import Cpu
from bench.records import Model, Variant
from bench.subject import Inputs, Subject, build
from bench.timers import Timing
from tests.probes import PRESETS, WIDTH, Counts, Normalises, preset, smoke, variant

MODEL = Model("custom:here", "here:build")
NO_GRAD = variant(grad="no_grad")
COMPILE = variant(grad="inference_mode", compile="default")
BUDGET = replace(smoke().budget, clock_rounds=5)


class Gpu(Cpu):
    """Only its name: what is asked before anything runs."""

    type = "cuda"


@pytest.fixture(autouse=True)
def _process_as_it_was() -> Iterator[None]:
    yield
    torch.compiler.reset()


def dispatch(
    module: nn.Module, *inputs: Tensor, asked: Variant = NO_GRAD, of: Model = MODEL
) -> Timing:
    subject = Subject(module.eval(), Inputs(inputs, {}))
    return empty.dispatch(subject, asked, of, Cpu(), BUDGET)


class Watches(TorchDispatchMode):
    """Notes every operator and how many numbers it gave."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[str] = []
        self.made = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.ops.append(str(func))
        if not func.is_view:
            self.made += sum(tensor.numel() for tensor in tree_leaves(out))
        return out


def watched(subject: Subject) -> Watches:
    step = modes.build(subject, NO_GRAD, True, Cpu()).step
    watch = Watches()
    with watch:
        step()
    return watch


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("pointwise", {"batch": 8, "width": 16, "ops": 12}),
        ("mlp", {"batch": 8, "width": 16, "depth": 3}),
    ],
)
def test_every_operator_is_dispatched_and_has_nothing_to_do(name: str, shape: Any) -> None:
    subject = build(Model(name, f"models.{name}:build"), shape)
    full, none = watched(subject), watched(empty._emptied(subject, 0))
    assert none.ops == full.ops
    assert len(full.ops) >= 5
    assert full.made > 0
    assert none.made == 0


def test_attention_takes_another_route() -> None:
    """For an empty batch torch sums queries, keys and values, in six scalars; 2.11 does not yet."""
    shape = {"batch": 2, "seq": 4, "width": 16, "heads": 2}
    subject = build(Model("transformer", "models.transformer:build"), shape)
    full, none = watched(subject), watched(empty._emptied(subject, 0))
    assert none.made in (0, 6)
    of_full, of_none = (Counter(watch.ops) for watch in (full, none))
    assert sum((of_full - of_none).values()) == (none.made > 0)  # attention itself
    assert all("attention" in name for name in of_full - of_none)


class Rows(nn.Module):
    """Works 1 ms per row; notes the shape of what comes in."""

    def __init__(self, dim: int = 0) -> None:
        super().__init__()
        self.dim, self.shapes = dim, list[tuple[int, ...]]()

    def forward(self, x: Tensor) -> Tensor:
        self.shapes.append(tuple(x.shape))
        time.sleep(1e-3 * x.shape[self.dim])
        return x


def test_work_that_grows_with_the_batch_is_not_in_it() -> None:
    timing = dispatch(Rows(), torch.ones(50, WIDTH))
    assert timing.reason is None
    assert len(timing.samples_s) == 5
    assert 0 < timing.median_s < 0.01  # of 0.05 s


def test_the_heap_settles_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = count()  # 0 sets the length of blocks, 1 to 5 are thrown away
    monkeypatch.setattr(empty, "host", lambda *_: Timing((float(next(readings)),)))
    assert dispatch(Rows(), torch.ones(2, WIDTH)).samples_s == (6.0, 7.0, 8.0, 9.0, 10.0)


@pytest.mark.parametrize(("dim", "shape"), [(0, (0, 7, 5)), (1, (3, 0, 5)), (2, (3, 7, 0))])
def test_the_batch_may_be_any_dimension(dim: int, shape: tuple[int, ...]) -> None:
    module = Rows(dim)
    timing = dispatch(module, torch.ones(3, 7, 5), of=replace(MODEL, batch_dim=dim))
    assert timing.samples_s
    assert set(module.shapes) == {shape}


@pytest.mark.parametrize("device", [Cpu(), Gpu()], ids=lambda device: device.type)
@pytest.mark.parametrize("name", PRESETS)
def test_which_modes_an_empty_batch_can_show(name: str, device: Cpu) -> None:
    mode = preset(name)
    reason = empty.objection(Variant(mode, "bf16"), device, MODEL)
    if mode.autocast:
        assert reason == "autocast casts every weight on an empty batch too"
    elif mode.graph or (device.type == "cuda" and mode.uses_graphs):
        assert reason == "the captured graph of an empty batch is empty"
    else:
        assert reason is None


def test_graphs_of_the_compiler_are_only_made_on_a_gpu() -> None:
    asked = Variant(preset("reduce-overhead"), "fp32")
    assert empty.objection(asked, Cpu(), MODEL) is None
    assert empty.objection(asked, Gpu(), MODEL) == "the captured graph of an empty batch is empty"


def test_a_model_without_a_batch_is_not_called() -> None:
    module = Rows()
    timing = dispatch(module, torch.ones(2, 2), of=replace(MODEL, batch_dim=None))
    assert timing == Timing((), "the model has no batch dimension (model.batch_dim)")
    assert module.shapes == []


class Largest(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.max()


@pytest.mark.parametrize("asked", [NO_GRAD, COMPILE], ids=["eager", "compiled"])
def test_a_model_that_cannot_take_it(asked: Variant) -> None:
    timing = dispatch(Largest(), torch.ones(2, 2), asked=asked)
    assert timing.samples_s == ()
    assert timing.reason is not None
    assert timing.reason.startswith("the model cannot take an empty batch (")
    assert "max" in timing.reason
    assert len(timing.reason) < 180


def test_inputs_without_that_dimension() -> None:
    timing = dispatch(nn.Bilinear(2, 2, 2), torch.ones(2, 2), torch.tensor(1.0))
    assert "the model cannot take an empty batch (" in str(timing.reason)


def buffers(module: nn.Module) -> list[Tensor]:
    return [buffer.clone() for buffer in module.buffers()]


@pytest.mark.parametrize("asked", [NO_GRAD, COMPILE], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    "module",
    [Normalises, lambda: Counts(in_place=True), lambda: Counts(in_place=False)],
    ids=["moments", "in place", "replaced"],
)
def test_state_and_inputs_are_as_before(asked: Variant, module: Any) -> None:
    """The mean of no rows is not a number; a module that learned it would be spoilt for good."""
    made, x = module(), torch.randn(8, WIDTH)
    before, held, content = buffers(made), list(made.buffers()), x.clone()
    assert dispatch(made, x, asked=asked).samples_s
    assert all(map(torch.equal, made.buffers(), before))
    assert all(now is then for now, then in zip(made.buffers(), held, strict=True))
    assert torch.equal(x, content)
    assert all(math.isfinite(value) for value in made(x).flatten().tolist())


def test_state_is_as_before_where_the_model_fails() -> None:
    class Fails(Counts):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y / y.max()

    made = Fails(in_place=True)
    assert dispatch(made, torch.randn(2, WIDTH)).samples_s == ()
    assert float(made.calls) == 1.0


def test_a_compiled_mode_compiles_once_more_and_keeps_what_it_had() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU())
    subject = Subject(module, Inputs((torch.randn(3, WIDTH),), {}))
    candidate = modes.build(subject, COMPILE, True, Cpu())
    first = torch.as_tensor(candidate.step())
    before = evidence.compiled_so_far()
    timing = empty.dispatch(subject, COMPILE, MODEL, Cpu(), BUDGET)
    assert len(timing.samples_s) == 5
    once_more = evidence.compiled_so_far().since(before)
    assert once_more.graphs == once_more.compilations == 1
    assert torch.equal(torch.as_tensor(candidate.step()), first)
    assert evidence.compiled_so_far().since(before) == once_more


def test_compiling_shows() -> None:
    """Sixty operators, one by one, against one compiled call that has no row to work on."""
    of = Model("pointwise", "models.pointwise:build")
    subject = build(of, {"batch": 4, "width": 4, "ops": 60})
    eager, compiled = (
        empty.dispatch(subject, asked, of, Cpu(), BUDGET).median_s for asked in (NO_GRAD, COMPILE)
    )
    assert compiled < 0.7 * eager


class WorksOnItsWeights(nn.Module):
    """A product of weights, whatever the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight @ self.weight)


@pytest.mark.parametrize("asked", [NO_GRAD, COMPILE], ids=["eager", "compiled"])
def test_work_on_an_empty_batch_is_not_called_dispatch(asked: Variant) -> None:
    timing = dispatch(WorksOnItsWeights(), torch.randn(4, WIDTH), asked=asked)
    assert not timing.samples_s
    assert timing.reason in {f"aten.{op} works on an empty batch too" for op in ("mm", "matmul")}

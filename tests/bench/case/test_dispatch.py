"""The call on an empty batch: all of the dispatch, no work, and no side effect."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.case import dispatch as empty
from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence import compiler_counts
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.passes.operator_comparison import Operators
from modescope.bench.records.cases import Model, Variant
from modescope.bench.timing import memory_layout, rounds
from modescope.bench.timing.timers import Timing
from tests.helpers.probe_models import WIDTH, Counts, Normalises, preset, smoke, variant

MODEL = Model("custom:here", "here:build")
NO_GRAD, INFERENCE = variant(grad="no_grad"), variant(grad="inference_mode")
COMPILE = variant(grad="inference_mode", compile="default")
BUDGET = replace(smoke().budget, clock_rounds=5)
GRADS = ("enabled", "no_grad", "inference_mode")


class Gpu(Cpu):
    """Has only a type: for questions before anything runs."""

    type = "cuda"


@pytest.fixture(autouse=True)
def _compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


def dispatch(
    module: nn.Module, *inputs: Any, asked: Variant = NO_GRAD, of: Model = MODEL
) -> Timing:
    return timed(Subject(module.eval(), Inputs(inputs, {})), asked, of)


def timed(subject: Subject, asked: Variant, of: Model = MODEL) -> Timing:
    """The clock's values in some rounds, and the note about them."""
    step, note = empty.prepare(subject, asked, of, Cpu())
    if step is None:
        return Timing((), note)
    clock = empty.clock([step], Cpu(), BUDGET)
    played = rounds.play([clock], [((0, 0),)] * BUDGET.clock_rounds, Cpu(), math.inf)
    return Timing(rounds.medians(played, 0, 0), note)


def watched(subject: Subject, grad: str = "no_grad") -> Operators:
    return empty._operators(subject, variant(grad=grad), Cpu())


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Tensor:
        return self.function(*inputs)


def last(layer: nn.Module) -> nn.Module:
    """The output of a recurrent layer, without its state."""
    return Calls(lambda x: layer(x)[0])


def branches(x: Tensor) -> Tensor:
    """Runs many operators on normal data, and few where the mean is not a number."""
    if x.mean() > 0:
        for _ in range(7):
            x = x * 1.01
    return x + 1


def copies(x: Tensor) -> Tensor:
    """Copies a tensor that is not dense where the batch is not empty."""
    for _ in range(40):
        x = x * 1.01
    if x.mean() > 0:
        for _ in range(6):
            x = x.T.clone()
    return x


def loops_over_rows(x: Tensor) -> Tensor:
    return torch.stack([row * 2 for row in x]) if len(x) else x


def works_on_weights(x: Tensor) -> Tensor:
    weight = torch.ones(WIDTH, WIDTH)
    return x @ (weight @ weight)


def factored(x: Tensor, factor: Tensor, times: int) -> Tensor:
    return x * factor**times


LSTM = last(nn.LSTM(WIDTH, WIDTH, batch_first=True))
ROWS, FACTOR = torch.ones(4, WIDTH), torch.tensor(2.0)
NO_LSTM = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN's LSTM")


@pytest.mark.parametrize(
    ("module", "inputs", "dim", "reason"),
    [
        (Calls(branches), (ROWS,), 0, "other operators than the real one: without 7 × aten.mul"),
        (Calls(copies), (torch.ones(WIDTH, WIDTH),), 0, "6 × aten.clone"),
        (Calls(loops_over_rows), (ROWS,), 0, "without 4 × aten.mul, aten.unbind, aten.stack"),
        (Calls(lambda x: x / x.max()), (ROWS,), 0, "an empty batch fails at test_dispatch.py:"),
        (Calls(works_on_weights), (ROWS,), 0, " works on an empty batch too"),
        # torch decomposes it; inference mode shows it as one operator, though others run below it
        pytest.param(LSTM, (torch.ones(4, 5, WIDTH),), 0, "aten.mkldnn_rnn_layer", marks=NO_LSTM),
        (Calls(factored), (ROWS[0], FACTOR, 2), 1, "no input has a dimension 1 (model.batch_dim)"),
        (Calls(factored), (ROWS, FACTOR, 2), None, "the model has no batch dimension ("),
    ],
)
@pytest.mark.parametrize("asked", [variant(), INFERENCE, COMPILE], ids=["eager", "mode", "code"])
def test_where_an_empty_batch_does_something_else_there_is_no_dispatch(
    asked: Variant, module: nn.Module, inputs: Any, dim: int | None, reason: str
) -> None:
    timing = dispatch(module, *inputs, asked=asked, of=replace(MODEL, batch_dim=dim))
    assert not timing.samples_s
    assert reason in timing.reason


def test_an_input_without_the_batch_dimension_stays_as_it_is_if_another_has_it() -> None:
    timing = dispatch(Calls(factored), ROWS, FACTOR, 2)
    assert timing.samples_s
    assert timing.reason is None


def test_a_known_detour_that_dominates_the_call_gives_no_dispatch() -> None:
    module = Calls(lambda x: nn.functional.scaled_dot_product_attention(x, x, x))
    timing = dispatch(module, torch.ones(4, 2, 3, WIDTH))
    if "attention" in watched(Subject(module, Inputs((torch.ones(0, 2, 3, 4),), {}))).names[0]:
        assert timing.reason is None  # torch 2.11 runs attention on an empty batch
    else:
        assert not timing.samples_s
        assert timing.reason.endswith("for 100% of the operators (scaled_dot_product_attention)")


def _convolves() -> nn.Module:
    layers = [nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 3, 1)]
    return nn.Sequential(*layers, nn.BatchNorm2d(3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))


class Reshapes(nn.Module):
    """Reshapes a transposed tensor, after operators that are equal on an empty batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sigmoid() for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x.transpose(1, 2))  # sigmoid keeps the strides
        return y.reshape(-1)


@pytest.mark.parametrize("grad", GRADS)
@pytest.mark.parametrize(
    ("build", "shape", "detour"),
    [
        (_convolves, (4, 3, 8, 8), "batch_norm"),
        (Reshapes, (4, 5, 3), "reshape of a transposed tensor"),
    ],
)
def test_detours_of_common_layers_are_known(
    build: Callable[[], nn.Module], shape: tuple[int, ...], detour: str, grad: str
) -> None:
    timing = dispatch(build(), torch.randn(shape), asked=variant(grad=grad))
    assert timing.samples_s, timing.reason
    assert detour in str(timing.reason)


def test_a_call_whose_operators_cannot_be_listed_gives_no_dispatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(*arguments: Any, **options: Any) -> Any:
        raise NotImplementedError("no rule for HigherOrderOperator cond")

    monkeypatch.setattr(Operators, "__torch_dispatch__", refuses)
    timing = dispatch(nn.Linear(WIDTH, WIDTH), torch.ones(2, WIDTH))
    assert not timing.samples_s
    assert timing.reason.startswith("torch cannot list the operators of a call (NotImpl")


class Rows(nn.Module):
    """Works 1 ms per row; records the shapes of its inputs, and those of its copies."""

    def __init__(self, dim: int = 0) -> None:
        super().__init__()
        self.dim, self.shapes = dim, list[tuple[int, ...]]()
        self.note = self.shapes.append  # a copy of the module keeps this method of this list

    def forward(self, x: Tensor) -> Tensor:
        self.note(tuple(x.shape))
        time.sleep(1e-3 * x.shape[self.dim])
        return x


@pytest.mark.parametrize(("dim", "shape"), [(0, (0, 7, 5)), (1, (50, 0, 5)), (-1, (50, 7, 0))])
def test_dispatch_excludes_work_that_grows_with_the_batch_in_any_dimension(
    dim: int, shape: tuple[int, ...]
) -> None:
    """One real call lists its operators."""
    module = Rows(dim)
    timing = dispatch(module, torch.ones(50, 7, 5), of=replace(MODEL, batch_dim=dim))
    assert timing.reason is None
    assert len(timing.samples_s) == BUDGET.clock_rounds
    assert 0 < timing.median_s < 0.004  # of 5 to 50 ms
    assert set(module.shapes) == {shape, (50, 7, 5)}


def test_every_block_of_dispatch_has_a_state_of_the_heap_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[object] = []
    monkeypatch.setattr(memory_layout, "disturb_heap", lambda draw: drawn.append(draw.random()))
    assert dispatch(Rows(), torch.ones(2, WIDTH)).samples_s
    assert len(set(drawn)) == BUDGET.clock_rounds


@pytest.mark.parametrize(
    ("name", "device", "reason"),
    [
        ("inference_mode", Gpu(), None),
        ("compile", Gpu(), None),
        ("amp", Cpu(), "autocast casts every weight on an empty batch too"),
        ("cuda-graph", Gpu(), "the captured graph of an empty batch is empty"),
        ("reduce-overhead", Gpu(), "the captured graph of an empty batch is empty"),
        ("reduce-overhead", Cpu(), None),
    ],
)
def test_modes_whose_dispatch_an_empty_batch_can_show(
    name: str, device: Cpu, reason: str | None
) -> None:
    """The compiler's graphs are captured on a GPU only."""
    assert empty.objection(Variant(preset(name), "bf16"), device, MODEL) == reason


class Fails(Counts):
    """Cannot take an empty batch, which it finds when it has counted the call."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y / y.max()


@pytest.mark.parametrize("asked", [NO_GRAD, pytest.param(COMPILE, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("module", "measured"),
    [
        (Normalises, True),
        (lambda: Counts(in_place=True), True),
        (lambda: Fails(in_place=True), False),
    ],
    ids=["moments", "counts", "fails"],
)
def test_measuring_dispatch_restores_state_and_inputs(
    asked: Variant, module: Any, measured: bool
) -> None:
    """The mean of no rows is not a number, and would stay in the module's running mean."""
    made, x = module(), torch.randn(8, WIDTH)
    held = list(made.buffers())
    before, content = [each.clone() for each in held], x.clone()
    assert bool(dispatch(made, x, asked=asked).samples_s) is measured
    assert all(map(torch.equal, made.buffers(), before))
    assert all(now is then for now, then in zip(made.buffers(), held, strict=True))
    assert torch.equal(x, content)
    assert all(math.isfinite(value) for value in made(x).flatten().tolist())


@pytest.mark.full
def test_a_compiled_mode_compiles_once_more_and_keeps_its_code() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU())
    subject = Subject(module, Inputs((torch.randn(3, WIDTH),), {}))
    candidate = modes.build(subject, COMPILE, True, Cpu(), ONE_CALL)
    first = torch.as_tensor(candidate.step())
    before = compiler_counts.read_compiled()
    timing = timed(subject, COMPILE, MODEL)
    assert (len(timing.samples_s), timing.reason) == (5, empty.NO_LAUNCHES)
    once_more = compiler_counts.read_compiled().since(before)
    assert once_more.graphs == once_more.compilations == 1
    assert torch.equal(torch.as_tensor(candidate.step()), first)
    assert compiler_counts.read_compiled().since(before) == once_more

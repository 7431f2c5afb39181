"""The call on an empty batch: all of the dispatch, no work, and no side effect."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.case import dispatch as empty
from modescope.bench.case.operator_comparison import Operators
from modescope.bench.devices.devices import Cpu
from modescope.bench.records.cases import Model, Variant
from modescope.bench.steps import backends, modes
from modescope.bench.steps.building import build
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.steps.phases import ONE_CALL
from modescope.bench.steps.subject import Inputs, Subject
from modescope.bench.timing import memory_layout, rounds
from modescope.bench.timing.timers import Timing
from tests.helpers.probe_models import PRESETS, WIDTH, Counts, Normalises, preset, smoke, variant

MODEL = Model("custom:here", "here:build")
NO_GRAD = variant(grad="no_grad")
COMPILE = variant(grad="inference_mode", compile="default")
BUDGET = replace(smoke().budget, clock_rounds=5)


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
    made = empty.prepare(subject, asked, of, Cpu())
    if made.step is None:
        return Timing((), made.note)
    clock = empty.clock([made.step], Cpu(), BUDGET)
    played = rounds.play([clock], [((0, 0),)] * BUDGET.clock_rounds, Cpu(), math.inf)
    return Timing(rounds.medians(played, 0, 0), made.note)


def watched(subject: Subject, grad: str = "no_grad") -> Operators:
    return empty._operators(subject, variant(grad=grad), Cpu())


GRADS = ("enabled", "no_grad", "inference_mode")


@pytest.mark.parametrize("grad", GRADS)
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("pointwise", {"batch": 8, "width": 16, "ops": 12}),
        ("mlp", {"batch": 8, "width": 16, "depth": 3}),
    ],
)
def test_an_empty_batch_dispatches_every_operator(name: str, shape: Any, grad: str) -> None:
    subject = build(Model(name, f"modescope.models.{name}:build"), shape)
    full, none = watched(subject, grad), watched(empty._empty(subject, 0), grad)
    assert none.names == full.names
    assert len(full.names) >= 5
    assert full.working
    assert none.working == []


@pytest.mark.parametrize("grad", GRADS)
def test_a_transformer_has_dispatch_with_the_known_error(grad: str) -> None:
    """From 2.12 torch sums queries, keys and values, in six scalars, in place of attention."""
    shape = {"batch": 2, "seq": 4, "width": 16, "heads": 2}
    of = Model("transformer", "modescope.models.transformer:build")
    subject = build(of, shape)
    full, none = watched(subject, grad), watched(empty._empty(subject, 0), grad)
    lost = Counter(full.names) - Counter(none.names)
    assert all("attention" in name or name == "aten.detach" for name in lost)
    timing = timed(subject, variant(grad=grad), of)
    assert len(timing.samples_s) == 5
    if lost:
        assert timing.reason == (
            "torch takes another route on an empty batch (scaled_dot_product_attention), which "
            "changes dispatch by about 7%"
        )
    else:
        assert timing.reason is None


class Branches(nn.Module):
    """Runs `many` operators on normal data, and few where the mean is not a number."""

    def __init__(self, many: int) -> None:
        super().__init__()
        self.many = many

    def forward(self, x: Tensor) -> Tensor:
        if x.mean() > 0:
            for _ in range(self.many):
                x = x * 1.01
        return x + 1


class LoopsOverRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([row * 2 for row in x]) if len(x) else x


class Last(nn.Module):
    """The output of a recurrent layer, without its state."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x)[0]
        return output


class Attends(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)


OTHERWISE = "an empty batch runs other operators than the real one: "


@pytest.mark.parametrize(
    "asked", [NO_GRAD, variant(), COMPILE], ids=["no_grad", "eager", "inductor"]
)
@pytest.mark.parametrize("many", [37, 7])
def test_different_operators_on_an_empty_batch_give_no_dispatch(many: int, asked: Variant) -> None:
    timing = dispatch(Branches(many), torch.ones(4, WIDTH), asked=asked)
    assert timing == Timing((), f"{OTHERWISE}without {many} × aten.mul")


class Copies(nn.Module):
    """Copies tensors, dense or not, where the batch is not empty."""

    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.transposed = transposed

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(40):
            x = x * 1.01
        if x.mean() > 0:
            for _ in range(6):
                x = (x.T if self.transposed else x).clone()
        return x


@pytest.mark.parametrize("transposed", [False, True])
def test_copies_in_the_model_are_not_taken_for_copies_by_torch(transposed: bool) -> None:
    timing = dispatch(Copies(transposed), torch.ones(WIDTH, WIDTH))
    assert not timing.samples_s
    assert str(timing.reason).startswith(f"{OTHERWISE}without ")
    assert "6 × aten.clone" in str(timing.reason)


def test_a_loop_over_rows_gives_no_dispatch() -> None:
    timing = dispatch(LoopsOverRows(), torch.ones(4, WIDTH))
    assert timing == Timing((), f"{OTHERWISE}without 4 × aten.mul, aten.unbind, aten.stack")


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN's LSTM")
@pytest.mark.parametrize("grad", GRADS)
def test_a_layer_that_torch_decomposes_for_an_empty_batch_gives_no_dispatch(grad: str) -> None:
    """Inference mode shows an LSTM as one operator, though others run below it."""
    layer = Last(nn.LSTM(WIDTH, WIDTH, batch_first=True))
    timing = dispatch(layer, torch.ones(4, 5, WIDTH), asked=variant(grad=grad))
    assert not timing.samples_s
    assert timing.reason is not None
    assert timing.reason.startswith(OTHERWISE)
    assert "aten.mkldnn_rnn_layer" in timing.reason
    assert "other operators" in timing.reason.removeprefix(OTHERWISE)


def test_a_known_detour_that_dominates_the_call_gives_no_dispatch() -> None:
    timing = dispatch(Attends(), torch.ones(4, 2, 3, WIDTH))
    if "attention" in watched(Subject(Attends(), Inputs((torch.ones(0, 2, 3, 4),), {}))).names[0]:
        assert timing.reason is None  # torch 2.11 runs attention on an empty batch
    else:
        assert timing == Timing(
            (),
            "torch takes another route on an empty batch (scaled_dot_product_attention), which "
            "would change dispatch by about 200%",
        )


def _convolves() -> nn.Module:
    layers = [nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 3, 1)]
    return nn.Sequential(*layers, nn.BatchNorm2d(3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))


class Transposes(nn.Module):
    """Every way to make a tensor contiguous, between equal operators."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sigmoid() for _ in range(12)], nn.Linear(5, 5))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x.transpose(1, 2))  # sigmoid keeps the strides
        return y.transpose(1, 2).contiguous() + y.transpose(1, 2).reshape(-1).sum()


def _recurs() -> nn.Module:
    return Last(nn.GRU(4, 4, batch_first=True))


def _layers() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 5), nn.LayerNorm(5), nn.Softmax(-1), nn.Dropout(0.1))


TRANSPOSED = "linear on a transposed input"
COPIES = {TRANSPOSED, "reshape of a transposed tensor", "copy of a transposed tensor"}
KNOWN: dict[str, tuple[Any, tuple[int, ...], set[str]]] = {
    "batch norm": (_convolves, (4, 3, 8, 8), {"batch_norm"}),
    "copies": (Transposes, (4, 5, 3), COPIES),
    "gru": (_recurs, (4, 5, 4), {TRANSPOSED}),
    "layers": (_layers, (4, 3, 5), set()),
}


@pytest.mark.parametrize("grad", GRADS)
@pytest.mark.parametrize("name", KNOWN)
def test_detours_of_common_layers_are_known(name: str, grad: str) -> None:
    module, shape, detours = KNOWN[name]
    timing = dispatch(module(), torch.randn(shape), asked=variant(grad=grad))
    assert timing.samples_s, timing.reason
    assert all(detour in str(timing.reason) for detour in detours)
    assert detours or timing.reason is None


@pytest.mark.full
def test_dispatch_of_compiled_code_has_a_note() -> None:
    timing = dispatch(nn.Linear(WIDTH, WIDTH), torch.ones(2, WIDTH), asked=COMPILE)
    assert timing.samples_s
    assert timing.reason == empty.NO_LAUNCHES


def test_a_call_whose_operators_cannot_be_listed_gives_no_dispatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(*arguments: Any, **options: Any) -> Any:
        raise NotImplementedError("no rule for HigherOrderOperator cond")

    monkeypatch.setattr(Operators, "__torch_dispatch__", refuses)
    timing = dispatch(nn.Linear(WIDTH, WIDTH), torch.ones(2, WIDTH))
    assert not timing.samples_s
    assert str(timing.reason).startswith("torch cannot list the operators of a call (NotImpl")


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


def test_dispatch_excludes_work_that_grows_with_the_batch() -> None:
    timing = dispatch(Rows(), torch.ones(50, WIDTH))
    assert timing.reason is None
    assert len(timing.samples_s) == 5
    assert 0 < timing.median_s < 0.01  # of 0.05 s


def test_every_block_of_dispatch_has_a_state_of_the_heap_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[object] = []
    heap = memory_layout.heap

    def watched(draw: random.Random) -> object:
        drawn.append(draw.getstate())
        return heap(draw)

    monkeypatch.setattr(memory_layout, "heap", watched)
    assert dispatch(Rows(), torch.ones(2, WIDTH)).samples_s
    assert len(set(drawn)) == BUDGET.clock_rounds


@pytest.mark.parametrize(("dim", "shape"), [(0, (0, 7, 5)), (1, (3, 0, 5)), (2, (3, 7, 0))])
def test_the_batch_may_be_any_dimension(dim: int, shape: tuple[int, ...]) -> None:
    module = Rows(dim)
    timing = dispatch(module, torch.ones(3, 7, 5), of=replace(MODEL, batch_dim=dim))
    assert timing.samples_s
    assert set(module.shapes) == {shape, (3, 7, 5)}  # with one real call, for its operators


@pytest.mark.parametrize("device", [Cpu(), Gpu()], ids=lambda device: device.type)
@pytest.mark.parametrize("name", PRESETS)
def test_modes_whose_dispatch_an_empty_batch_can_show(name: str, device: Cpu) -> None:
    mode = preset(name)
    reason = empty.objection(Variant(mode, "bf16"), device, MODEL)
    if mode.autocast:
        assert reason == "autocast casts every weight on an empty batch too"
    elif mode.graph or (device.type == "cuda" and backends.replays_graphs(mode)):
        assert reason == "the captured graph of an empty batch is empty"
    else:
        assert reason is None


def test_the_compilers_graphs_prevent_dispatch_on_a_gpu_only() -> None:
    asked = Variant(preset("reduce-overhead"), "fp32")
    assert empty.objection(asked, Cpu(), MODEL) is None
    assert empty.objection(asked, Gpu(), MODEL) == "the captured graph of an empty batch is empty"


def test_a_model_without_a_batch_dimension_is_not_called() -> None:
    module = Rows()
    timing = dispatch(module, torch.ones(2, 2), of=replace(MODEL, batch_dim=None))
    assert timing == Timing((), "the model has no batch dimension (model.batch_dim)")
    assert module.shapes == []


class Largest(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.max()


@pytest.mark.parametrize("asked", [NO_GRAD, COMPILE], ids=["eager", "compiled"])
def test_a_model_that_fails_on_an_empty_batch_gives_no_dispatch(asked: Variant) -> None:
    timing = dispatch(Largest(), torch.ones(2, 2), asked=asked)
    assert timing.samples_s == ()
    assert timing.reason is not None
    assert timing.reason.startswith("the model cannot take an empty batch (")
    assert "max" in timing.reason
    assert len(timing.reason) < 180


class Scales(nn.Module):
    """Takes a factor, which has no batch dimension, and how often to apply it."""

    def forward(self, x: Tensor, factor: Tensor, times: int) -> Tensor:
        for _ in range(times):
            x = x * factor
        return x


def test_an_input_without_the_batch_dimension_stays_as_it_is() -> None:
    timing = dispatch(Scales(), torch.randn(3, WIDTH), torch.tensor(2.0), 2)
    assert len(timing.samples_s) == BUDGET.clock_rounds
    assert timing.reason is None


def test_without_any_batch_dimension_the_reason_names_the_setting() -> None:
    timing = dispatch(
        Scales(), torch.randn(3), torch.tensor(2.0), 2, of=replace(MODEL, batch_dim=1)
    )
    assert timing == Timing((), "no input has a dimension 1 (model.batch_dim)")


def buffers(module: nn.Module) -> list[Tensor]:
    return [buffer.clone() for buffer in module.buffers()]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(NO_GRAD, id="eager"),
        pytest.param(COMPILE, id="compiled", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize(
    "module",
    [Normalises, lambda: Counts(in_place=True), lambda: Counts(in_place=False)],
    ids=["moments", "in place", "replaced"],
)
def test_measuring_dispatch_restores_state_and_inputs(asked: Variant, module: Any) -> None:
    """The mean of no rows is not a number, and would stay in the module's running mean."""
    made, x = module(), torch.randn(8, WIDTH)
    before, held, content = buffers(made), list(made.buffers()), x.clone()
    assert dispatch(made, x, asked=asked).samples_s
    assert all(map(torch.equal, made.buffers(), before))
    assert all(now is then for now, then in zip(made.buffers(), held, strict=True))
    assert torch.equal(x, content)
    assert all(math.isfinite(value) for value in made(x).flatten().tolist())


def test_the_empty_batch_shares_parameters_and_has_buffers_of_its_own() -> None:
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH), Normalises())
    emptied = empty._empty(Subject(module, Inputs((torch.randn(8, WIDTH),), {})), 0).module
    pairs = list(zip(module.parameters(), emptied.parameters(), strict=True))
    assert pairs
    assert all(one is other for one, other in pairs)
    kept = {buffer.data_ptr() for buffer in module.buffers()}
    assert kept
    assert not kept & {buffer.data_ptr() for buffer in emptied.buffers()}


def test_state_is_restored_where_the_model_fails() -> None:
    class Fails(Counts):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y / y.max()

    made = Fails(in_place=True)
    assert dispatch(made, torch.randn(2, WIDTH)).samples_s == ()
    assert float(made.calls) == 1.0


@pytest.mark.full
def test_a_compiled_mode_compiles_once_more_and_keeps_its_code() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU())
    subject = Subject(module, Inputs((torch.randn(3, WIDTH),), {}))
    candidate = modes.build(subject, COMPILE, True, Cpu(), ONE_CALL)
    first = torch.as_tensor(candidate.step())
    before = mode_effect.read_compiled()
    timing = timed(subject, COMPILE, MODEL)
    assert len(timing.samples_s) == 5
    once_more = mode_effect.read_compiled().since(before)
    assert once_more.graphs == once_more.compilations == 1
    assert torch.equal(torch.as_tensor(candidate.step()), first)
    assert mode_effect.read_compiled().since(before) == once_more


@pytest.mark.full
def test_compiled_code_has_less_dispatch() -> None:
    """Sixty single operators against one compiled call on an empty batch."""
    of = Model("pointwise", "modescope.models.pointwise:build")
    subject = build(of, {"batch": 4, "width": 4, "ops": 60})
    eager, compiled = (timed(subject, asked, of).median_s for asked in (NO_GRAD, COMPILE))
    assert compiled < 0.7 * eager


class WorksOnItsWeights(nn.Module):
    """A product of weights, for any batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight @ self.weight)


@pytest.mark.parametrize("asked", [NO_GRAD, COMPILE], ids=["eager", "compiled"])
def test_work_on_an_empty_batch_gives_no_dispatch(asked: Variant) -> None:
    timing = dispatch(WorksOnItsWeights(), torch.randn(4, WIDTH), asked=asked)
    assert not timing.samples_s
    assert timing.reason in {f"aten.{op} works on an empty batch too" for op in ("mm", "matmul")}

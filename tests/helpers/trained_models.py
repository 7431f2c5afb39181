"""Tiny models that are trained, and short ways to build and check steps of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from modescope.bench.checking import training_check
from modescope.bench.checking.checks import Deviation
from modescope.bench.checking.prepare import check_for
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.model.subject import Built, Inputs, Subject
from modescope.bench.modes import modes
from modescope.bench.modes.losses import trainable
from modescope.bench.modes.phases import TrainingPhase
from modescope.bench.modes.trainer import RECOMPUTING, Trainer, trainer_of
from modescope.bench.records.cases import Case, Training, Variant
from modescope.models import mlp, transformer
from tests.helpers import probe_models
from tests.helpers.probe_models import variant

WIDTH, ROWS = 8, 16

Build = Callable[..., probe_models.Built]
EAGER, GRAPH = variant(), variant(graph=True)


def small_mlp() -> probe_models.Built:
    """An MLP of two layers; one of a single layer would compile no faster."""
    return mlp.build(batch=4, width=16, depth=2)


def small_transformer() -> probe_models.Built:
    return transformer.build(batch=1, seq=8, width=16, heads=2)


def normalised() -> probe_models.Built:
    """A model with a batch norm, so the gradient of the first bias is zero except for rounding."""
    net = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
    )
    return net, (torch.randn(ROWS, WIDTH),)


class PartlyUsed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Any:
        return self.used(x)


def partly_used() -> probe_models.Built:
    return PartlyUsed(), (torch.randn(ROWS, WIDTH),)


def tied() -> probe_models.Built:
    first, last = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
    last.weight = first.weight
    return nn.Sequential(first, nn.GELU(), last), (torch.randn(ROWS, WIDTH),)


def frozen() -> probe_models.Built:
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
    net[0].weight.requires_grad_(False)
    return net, (torch.randn(ROWS, WIDTH),)


def looked_up() -> probe_models.Built:
    return nn.Sequential(nn.Embedding(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)), (
        torch.arange(WIDTH),
    )


LEARNERS: dict[str, Build] = {
    each.__name__: each
    for each in (
        *(small_mlp, small_transformer, normalised),
        *(partly_used, tied, frozen, looked_up),
    )
}


def subject(build: Build, loss: str = "mse") -> Subject:
    torch.manual_seed(0)
    module, args = build()
    return trainable(Subject(module, Inputs(args, {})), loss, seed=0)


def built(of: Subject, asked: Variant = EAGER, device: Cpu | None = None, **options: Any) -> Built:
    """A step built as for timing: on its own copy, already called, with a settled loss scale."""
    training = Training(**options)
    own = of.cast(modes.weight_dtype(asked))
    own = Subject(RECOMPUTING[training.checkpoint](own.module, False), own.inputs)
    made = modes.build(own, asked, True, device or Cpu(), TrainingPhase(training))
    with made.keep_state():
        made.step()
    made.adjust_start()
    return made


def check_of(of: Subject, **options: Any) -> training_check.TrainingCheck:
    check = check_for(TrainingPhase(Training(**options)), of, Cpu(), seed=0)
    assert isinstance(check, training_check.TrainingCheck)
    return check


def examined(build: Build, asked: Variant = EAGER, **options: Any) -> Deviation:
    of = subject(build)
    return check_of(of, **options).examine(built(of, asked, **options), asked)


def with_step(made: Built, step: Callable[[Trainer], Tensor]) -> Built:
    """`made` with `step` in place of its step."""
    trainer = trainer_of(made)
    replaced: Step = lambda: step(trainer)  # noqa: E731
    return replace(made, live=replaced, step=replaced)


class Graphs(Cpu):
    """A CPU that notes what it is asked to capture or graph, and then runs it as usual."""

    def __init__(self) -> None:
        self.captured: list[Step] = []
        self.graphed_modules: list[nn.Module] = []
        self.autocast: list[tuple[bool, bool]] = []

    def capture(self, step: Step) -> Step:
        self.captured.append(step)
        step()
        return lambda: step()

    def make_graph(self, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> nn.Module:
        self.graphed_modules.append(module)
        self.autocast.append((torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()))
        forward = module.forward
        module.forward = lambda *args: forward(*args)
        return module


def case(of: Build, asked: Variant = EAGER, **options: Any) -> Case:
    """A case of training the model `of`, a function of this file."""
    target = f"{__name__}:{of.__name__}"
    made = probe_models.case(
        replace(probe_models.model(of), target=target, name=f"custom:{target}"), asked
    )
    return replace(made, options=Training(**options))


def parameters(made: Built) -> list[Tensor]:
    return [each.detach().clone() for each in trainer_of(made).trained]


def everything(made: Built) -> list[Tensor]:
    """Copies of all tensors that a step may change and that must be restored."""
    state = [*made.subject.tensors(), *trainer_of(made).tensors()]
    return [each.detach().clone() for each in state]


def equal(some: list[Tensor], others: list[Tensor]) -> bool:
    return len(some) == len(others) and all(map(torch.equal, some, others))

"""Tiny models that are trained, and short ways to build steps of them and to examine these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from bench import modes
from bench.accuracy import Deviation
from bench.devices import Cpu, Step
from bench.records import Case, Training, Variant
from bench.subject import Inputs, Subject
from bench.training import exam
from bench.training.losses import trainable
from bench.training.recomputing import RECOMPUTING
from bench.training.trainer import Trainer
from models import mlp, pointwise, transformer
from tests import probes
from tests.probes import variant

WIDTH, ROWS = 8, 16

Build = Callable[..., probes.Built]
EAGER, GRAPH = variant(), variant(graph=True)


def small_mlp() -> probes.Built:
    """Two layers, as one compiles no sooner than three."""
    return mlp.build(batch=4, width=16, depth=2)


def small_transformer() -> probes.Built:
    return transformer.build(batch=1, seq=8, width=16, heads=2)


def small_pointwise() -> probes.Built:
    return pointwise.build(batch=2, width=8, ops=8)


def normalised() -> probes.Built:
    """The gradient of the first bias is zero but for rounding, and ReLU's jump."""
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


def partly_used() -> probes.Built:
    return PartlyUsed(), (torch.randn(ROWS, WIDTH),)


def tied() -> probes.Built:
    first, last = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
    last.weight = first.weight
    return nn.Sequential(first, nn.GELU(), last), (torch.randn(ROWS, WIDTH),)


def frozen() -> probes.Built:
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
    net[0].weight.requires_grad_(False)
    return net, (torch.randn(ROWS, WIDTH),)


def looked_up() -> probes.Built:
    return nn.Sequential(nn.Embedding(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)), (
        torch.arange(WIDTH),
    )


LEARNERS: dict[str, Build] = {
    each.__name__: each
    for each in (
        *(small_mlp, small_transformer, small_pointwise),
        *(normalised, partly_used, tied, frozen, looked_up),
    )
}


def subject(build: Build, loss: str = "mse") -> Subject:
    torch.manual_seed(0)
    module, args = build()
    return trainable(Subject(module, Inputs(args, {})), loss, seed=0)


def built(
    of: Subject, asked: Variant = EAGER, device: Cpu | None = None, **options: Any
) -> modes.Built:
    """As an entrant is: on its own copy, called before, its loss scale settled."""
    training = Training(**options)
    own = of.cast(modes.weight_dtype(asked))
    own = Subject(RECOMPUTING[training.checkpoint](own.module), own.inputs)
    made = modes.build(own, asked, True, device or Cpu(), training)
    with made.kept():
        made.step()
    made.settle()
    return made


def exam_of(of: Subject, **options: Any) -> exam.Exam:
    return exam.prepare(of, Training(**options), Cpu(), seed=0)


def examined(build: Build, asked: Variant = EAGER, **options: Any) -> Deviation:
    of = subject(build)
    return exam.examine(exam_of(of, **options), built(of, asked, **options), asked)


def with_step(made: modes.Built, step: Callable[[Trainer], Tensor]) -> modes.Built:
    """The same, but what is timed is another step of its trainer."""
    trainer = made.trainer
    replaced: Step = lambda: step(trainer)  # noqa: E731
    return replace(made, live=replaced, step=replaced)


class Graphs(Cpu):
    """Remembers what was captured or graphed, and goes on without."""

    def __init__(self) -> None:
        self.captured: list[Step] = []
        self.graphed_modules: list[nn.Module] = []
        self.autocast: list[tuple[bool, bool]] = []

    def capture(self, step: Step) -> Step:
        self.captured.append(step)
        step()
        return lambda: step()

    def graphed(self, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> nn.Module:
        self.graphed_modules.append(module)
        self.autocast.append((torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()))
        forward = module.forward
        module.forward = lambda *args: forward(*args)
        return module


def case(of: Build, asked: Variant = EAGER, **options: Any) -> Case:
    """Of a model of this file, for `bench.runner`."""
    target = f"{__name__}:{of.__name__}"
    made = probes.case(replace(probes.model(of), target=target, name=f"custom:{target}"), asked)
    return replace(made, training=Training(**options))


def parameters(made: modes.Built) -> list[Tensor]:
    return [each.detach().clone() for each in made.trainer.trained]


def everything(made: modes.Built) -> list[Tensor]:
    """All that a step may change and that must be put back."""
    state = [*made.subject.tensors(), *made.trainer.state()]
    return [each.detach().clone() for each in state]


def equal(some: list[Tensor], others: list[Tensor]) -> bool:
    return len(some) == len(others) and all(map(torch.equal, some, others))

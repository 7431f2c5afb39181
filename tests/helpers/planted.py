"""Plants faults in the steps of one mode, and runs the correctness checks without any timing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from modescope.bench.checking import exact_judge, random_judge
from modescope.bench.checking.prepare import check_for
from modescope.bench.checking.randomness import SWITCHES
from modescope.bench.devices.devices import Cpu
from modescope.bench.model.building import build
from modescope.bench.model.subject import Built
from modescope.bench.modes import modes
from modescope.bench.modes.phases import phase_of
from modescope.bench.modes.trainer import trainer_of
from modescope.bench.records.cases import Case, Inference, Model, PhaseOptions, Training
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Ended, Findings, Result
from tests.helpers import probe_models, published


@dataclass(frozen=True)
class Family:
    """A model of `tests.helpers.published`, and the parts of it in which faults are planted."""

    target: str
    layer: str  # module whose output a fault scales; no norm after it undoes that
    weight: str  # parameter whose gradient a fault scales
    arguments: str = "{}"


PUBLISHED = "tests.helpers.published"

FAMILIES = {
    "convolutional": Family(
        f"{PUBLISHED}:resnet",
        "blocks.1.norm2",
        "blocks.1.conv2.weight",
        '{"dropout":0.2,"width":4,"blocks":2}',
    ),
    "transformer": Family(f"{PUBLISHED}:decoder", "mlp.2", "mlp.0.weight"),
    "recurrent": Family(f"{PUBLISHED}:recurrent", "second", "first.weight_hh"),
}

EDGE = Family(f"{__name__}:edge", "out", "out.weight")
"""A model whose gradients rounding changes even in eager, because it switches six ReLUs."""

DROPPING = Family(f"{__name__}:dropping", "2", "0.weight")
"""A model with dropout that compiles fast."""

Fault = Callable[[Built, Family], Built]
"""A function that returns built steps with a fault planted in them."""


def _off_by_two_percent(built: Built, of: Family) -> Built:
    """The gradient of one layer's weight is 2 % too large."""
    weight = built.subject.module.get_parameter(of.weight)
    weight.register_hook(lambda gradient: 1.02 * gradient)
    return built


def _wrong_forward(built: Built, of: Family) -> Built:
    """One layer's output is 1 % too large."""
    part = built.subject.module.get_submodule(of.layer)
    part.register_forward_hook(lambda module, args, output: 1.01 * output)
    return built


def wrong_when_compiled(built: Built, of: Family) -> Built:
    """As `_wrong_forward`, but only in compiled code."""
    part = built.subject.module.get_submodule(of.layer)
    part.register_forward_hook(
        lambda module, args, output: 1.01 * output if torch.compiler.is_compiling() else output
    )
    return built


def _no_update(built: Built, of: Family) -> Built:
    trainer_of(built).update = lambda: None  # type: ignore[method-assign]
    return built


def _never_drops(built: Built, of: Family) -> Built:
    next(iter(SWITCHES.values()))(built.subject.module)
    return built


def _same_draws(built: Built, of: Family) -> Built:
    """Every step draws the same random numbers, as a captured graph with constant masks would."""

    def step() -> object:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return built.step()

    return replace(built, step=step)


def _stale_input(built: Built, of: Family) -> Built:
    """Every step computes with the first inputs, not with the current ones."""
    first = built.subject.inputs.map(torch.clone)

    def step() -> object:
        fresh = built.subject.inputs.map(torch.clone)
        built.subject.inputs.assign(first)
        outcome = built.step()
        built.subject.inputs.assign(fresh)
        return outcome

    return replace(built, step=step)


FAULTS: dict[str, Fault] = {
    "forward": _wrong_forward,
    "backward": _off_by_two_percent,
    "no optimizer step": _no_update,
    "dropout that does not drop": _never_drops,
    "dropout with constant masks": _same_draws,
    "stale input": _stale_input,
}

PLANTED = "planted"


class Edge(nn.Module):
    """Six ReLUs have the input 2**-26, which fp32 rounds to 0, where their gradient jumps."""

    subtracted: Tensor

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.out = nn.Linear(width, width)
        self.register_buffer("subtracted", torch.zeros(width))
        with torch.no_grad():
            self.weight[:6] = 1 + 2**-13
            self.subtracted[:6] = 1 + 2**-12

    def forward(self, x: Tensor) -> Tensor:
        jumps = functional.relu(self.weight * self.weight.detach() - self.subtracted)
        y: Tensor = self.out(x * self.weight + self.bias + jumps)
        return y


def edge() -> published.Built:
    return Edge(), (torch.randn(16, 64),)


def dropping() -> published.Built:
    net = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.2), nn.Linear(16, 4))
    return net, (torch.randn(8, 16),)


def case_of(of: Family, phase: str = "train", compile_mode: str = "none", lr: float = 0.1) -> Case:
    """A case of the model `of`, with a mode called PLANTED."""
    variant = probe_models.variant(compile=compile_mode)
    mode = replace(variant.mode, name=PLANTED)
    options: PhaseOptions = Training(lr=lr) if phase == "train" else Inference()
    model = Model(f"custom:{of.target}", of.target, of.arguments)
    return Case(model, "{}", replace(variant, mode=mode), None, "cpu", 1, options)


def verdict(
    of: Family,
    case: Case,
    seed: int,
    patch: pytest.MonkeyPatch,
    fault: Fault | None = None,
) -> Result:
    """The result of the checks of `case`, with `fault` planted in it if given, without timing.

    `of` is the model of `case`.
    """
    built_right, eager = modes.build, exact_judge.plain_eager

    def faulty(subject: Any, variant: Any, *others: Any) -> Built:
        built = built_right(subject, variant, *others)
        return fault(built, of) if fault and variant.mode.name == PLANTED else built

    def right(subject: Any, case: Case, device: Cpu) -> Built:
        with patch.context() as inner:
            inner.setattr(modes, "build", built_right)
            return eager(subject, case, device)

    patch.setattr(modes, "build", faulty)
    patch.setattr(exact_judge, "plain_eager", right)
    plan, device, phase = replace(probe_models.smoke(), seed=seed), Cpu(), phase_of(case.options)
    torch.manual_seed(seed)
    subject = phase.prepare(build(case.model, case.shape), seed)
    check = check_for(phase, subject, device, seed)
    assert check.unfit is None
    subject = replace(subject, random=check.seen.random)
    judge = random_judge.judge_of(check, subject, case, plan, device)
    own = subject.cast(torch.float32)
    built = modes.build(
        own, case.variant, case.model.fullgraph, device, phase, phase.start(own.module)
    )
    try:
        with built.keep_state():
            built.step()
        findings = judge.judge(built, judge.columns(Findings()))
        if check.seen.random:
            findings = random_judge.check_without_randomness(case, plan, device, findings)
    except Ended as ended:
        return ended.result
    return Result(Status.OK, None, findings)

"""Does a step train rightly? Losses, gradients and updates of a few steps against float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from bench import modes
from bench.accuracy import REPEATABLE, Deviation, default_dtype, worst
from bench.devices import Hardware
from bench.modes import Built
from bench.outputs import Outputs, double
from bench.records import Mode, Training, Variant
from bench.subject import Inputs, Subject, redraw, state_kept
from bench.tolerances import jump
from bench.training.answers import EXACT, Answers, answers, errors, ruler
from bench.training.choices import OPTIMIZERS
from bench.training.recomputing import trained

STEPS = 3
"""The first reads the initial weights, the others those that steps made, each a batch of its own:
a replay that trains on an old batch or on old weights is found out."""

OTHER_BATCHES = 2
"""How often an error that a single jump can explain is looked at with other batches: where a jump
is rare, one of two steps that are equally right has it and the other has not."""

REFERENCE = Variant(Mode("reference", "enabled", autocast=False, compile="none", graph=False), "-")

NO_GRADIENT = "no parameter of the model has a gradient of the loss: nothing can be trained"
STOCHASTIC = (
    "the model draws random numbers in forward, so what it learns cannot be checked; build it "
    "without (dropout=0)"
)


@dataclass(frozen=True)
class Exam:
    """A batch for each step, and what float64 makes of them."""

    subject: Subject  # a copy on the host, for other batches
    inputs: tuple[Inputs, ...]
    answers: Answers  # on the host, like all that is compared: float64 takes no memory of a GPU
    training: Training
    device: Hardware
    seed: int
    unfit: str | None  # why steps cannot be compared, if so


def prepare(subject: Subject, training: Training, device: Hardware, seed: int) -> Exam:
    """Trains a float64 copy of `subject`, which has its targets, on fresh batches."""
    inputs = tuple(redraw(subject.inputs, seed + 1 + step) for step in range(STEPS))
    plain = Training(training.optimizer, lr=training.lr, loss=training.loss, scaler=False)
    with default_dtype(torch.float64):
        own = subject.cast(torch.float64)
        built = modes.build(own, REFERENCE, True, device, plain)
        with state_kept(own.module):
            records = built.trainer is not None and built.trainer.forward().requires_grad
        if not records:
            return Exam(subject, inputs, {}, training, device, seed, NO_GRADIENT)
        outcome, again = (_outcome(built, inputs, each) for each in (seed, seed + 1))
    if not any(place.startswith("gradient") for place in outcome):
        return Exam(subject, inputs, {}, training, device, seed, NO_GRADIENT)
    follows_size = OPTIMIZERS[training.optimizer].follows_size
    expected = answers(outcome, own.module, follows_size)
    stochastic = worst(errors(again, expected, EXACT)).error > REPEATABLE
    kept = subject.cast(torch.float32).to(torch.device("cpu"))
    unfit = STOCHASTIC if stochastic else None
    return Exam(kept, inputs, expected, training, device, seed, unfit)


def examine(exam: Exam, built: Built, variant: Variant, limit: float = math.inf) -> Deviation:
    """The largest error of a loss, gradient or update, and where; everything is as before after it.

    One above `limit` that a jump of gradients can explain (`bench.tolerances.KINK`) is looked
    at again on other batches, and the smallest counts: what is wrong is wrong there, too.
    """
    found = _deviation(exam, built, variant)
    for number in range(1, 1 + OTHER_BATCHES):
        if not limit < found.error <= jump(variant.dtype):
            break
        seed = exam.seed + number * STEPS
        again = exam.subject.cast(torch.float32).to(exam.device.torch_device)
        other = prepare(again, exam.training, exam.device, seed)
        found = min(found, _deviation(other, built, variant), key=lambda each: each.error)
    return found


def _deviation(exam: Exam, built: Built, variant: Variant) -> Deviation:
    outcome = _outcome(built, exam.inputs, exam.seed)
    return worst(errors(outcome, exam.answers, ruler(variant)))


def _outcome(built: Built, inputs: tuple[Inputs, ...], seed: int) -> Outputs:
    """Losses, gradients and updates by name, as float64 copies."""
    trainer = built.trainer
    assert trainer is not None
    own = built.subject.inputs.map(torch.clone)
    found: Outputs = {}
    with built.kept():
        trainer.restore()
        named = trained(built.subject.module)
        before = {name: _kept(parameter) for name, parameter in named.items()}
        for number, fresh in enumerate(inputs, 1):
            with torch.no_grad():
                built.subject.inputs.assign(fresh)
            torch.manual_seed(seed)
            found[f"loss of step {number}"] = _kept(_loss(built))
            for name, parameter in named.items():
                if parameter.grad is not None:
                    found[f"gradient of {name} in step {number}"] = _kept(parameter.grad.to_dense())
        for name, parameter in named.items():
            found[f"update of {name}"] = _kept(parameter) - before[name]
    with torch.no_grad():
        built.subject.inputs.assign(own)
    return found


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    return double(tensor.detach().to("cpu"))


def _loss(built: Built) -> torch.Tensor:
    loss = built.step()
    assert isinstance(loss, torch.Tensor)
    return loss

"""Does a step train rightly? Losses, gradients and updates of a few steps against float64."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from bench import modes
from bench.accuracy import REPEATABLE, STOCHASTIC, TOLERANCE, Deviation, default_dtype, worst
from bench.devices import Hardware
from bench.modes import Built
from bench.outputs import Outputs, double
from bench.records import Mode, Training, Variant
from bench.subject import Inputs, Subject, redraw

T = TypeVar("T")

STEPS = 3
"""The first reads the initial weights, the others those that steps made, each a batch of its own:
a replay that trains on an old batch or on old weights is found out."""

LEAST_SHARE = 1e-3
"""Of the root mean square of all gradients' norms: below it a gradient is held against that, for
some are zero but for rounding: the key bias of attention has a relative error of 4.8e8 in fp32."""

REFERENCE = Variant(Mode("reference", "enabled", autocast=False, compile="none", graph=False), "-")


@dataclass(frozen=True)
class Answer:
    """What float64 has, and what an error is held against."""

    value: torch.Tensor
    size: float  # a norm
    weight: float = 0.0  # norm of the weight that was updated, whose rounding is no error
    telling: torch.Tensor | None = None  # which elements count; None: all

    def error(self, came: torch.Tensor, resolution: float) -> float:
        """Norm of the difference over `size`, or over what weights of such a resolution show."""
        difference = came - self.value
        if self.telling is not None:
            difference = difference[self.telling]
        size = max(self.size, self.weight * resolution)
        norm = _norm(difference)
        return norm / size if size > 0 else norm


@dataclass(frozen=True)
class Exam:
    """A batch for each step, and what float64 makes of them."""

    inputs: tuple[Inputs, ...]
    answers: dict[str, Answer]
    training: Training
    seed: int
    unfit: str | None  # why steps cannot be compared, if so


def prepare(subject: Subject, training: Training, device: Hardware, seed: int) -> Exam:
    """Trains a float64 copy of `subject`, which has its targets, on fresh batches."""
    inputs = tuple(redraw(subject.inputs, seed + 1 + step) for step in range(STEPS))
    plain = Training(training.optimizer, lr=training.lr, loss=training.loss, scaler=False)
    with default_dtype(torch.float64):
        own = subject.cast(torch.float64)
        built = modes.build(own, REFERENCE, True, device, plain)
        outcome, again = (_outcome(built, inputs, each) for each in (seed, seed + 1))
    answers = _answers(outcome, own.module)
    if training.optimizer != "sgd":
        answers = _where_gradients_tell(answers)
    stochastic = worst(_errors(again, answers, 0.0)).error > REPEATABLE
    return Exam(inputs, answers, training, seed, STOCHASTIC if stochastic else None)


def examine(exam: Exam, built: Built, variant: Variant) -> Deviation:
    """The largest error of a loss, gradient or update, and where; everything is as before after it.

    Updates are held against what the weights' dtype can show of them. Those of adamw count in fp32
    alone: its first steps are as long for a gradient of rounding errors as for any other.
    """
    outcome = _outcome(built, exam.inputs, exam.seed)
    full = variant.dtype == "fp32" and not variant.mode.autocast
    answers = exam.answers
    if exam.training.optimizer != "sgd" and not full:
        outcome, answers = _without_updates(outcome), _without_updates(answers)
    if outcome.keys() != answers.keys():
        return Deviation(math.inf, ", ".join(sorted(outcome.keys() ^ answers.keys())))
    eps = torch.finfo(modes.weight_dtype(variant)).eps
    return worst(_errors(outcome, answers, eps / TOLERANCE[variant.dtype]))


def _outcome(built: Built, inputs: tuple[Inputs, ...], seed: int) -> Outputs:
    """Losses, gradients and updates by name, as float64 copies."""
    trainer = built.trainer
    assert trainer is not None
    own = built.subject.inputs.map(torch.clone)
    found: Outputs = {}
    with built.kept():
        trainer.restore()
        named = {name: p for name, p in built.subject.module.named_parameters() if p.requires_grad}
        before = {name: double(parameter) for name, parameter in named.items()}
        for number, fresh in enumerate(inputs, 1):
            with torch.no_grad():
                built.subject.inputs.assign(fresh)
            torch.manual_seed(seed)
            found[f"loss of step {number}"] = double(_loss(built))
            for name, parameter in named.items():
                if parameter.grad is not None:
                    found[f"gradient of {name} in step {number}"] = double(parameter.grad)
        for name, parameter in named.items():
            found[f"update of {name}"] = double(parameter) - before[name]
    with torch.no_grad():
        built.subject.inputs.assign(own)
    return found


def _loss(built: Built) -> torch.Tensor:
    loss = built.step()
    assert isinstance(loss, torch.Tensor)
    return loss


def _answers(outcome: Outputs, module: torch.nn.Module) -> dict[str, Answer]:
    least = {kind: _floor(_those(kind, outcome)) for kind in ("gradient", "update")}
    weights = {f"update of {name}": _norm(p) for name, p in module.named_parameters()}
    return {
        place: Answer(
            value,
            size=max(_norm(value), least.get(place.partition(" ")[0], 0.0)),
            weight=weights.get(place, 0.0),
        )
        for place, value in outcome.items()
    }


def _where_gradients_tell(answers: dict[str, Answer]) -> dict[str, Answer]:
    """Updates compared only where no gradient of the element is small beside the others."""
    gradients = {place: each.value for place, each in _those("gradient", answers).items()}
    elements = torch.cat([gradient.flatten() for gradient in gradients.values()])
    least = LEAST_SHARE * float(elements.square().mean().sqrt())
    telling = {}
    for place in _those("update", answers):
        of = place.replace("update of", "gradient of") + " in "
        own = torch.stack([g.abs() for key, g in gradients.items() if key.startswith(of)])
        telling[place] = own.amin(0) >= least
    return {place: replace(answer, telling=telling.get(place)) for place, answer in answers.items()}


def _floor(tensors: Outputs) -> float:
    return LEAST_SHARE * math.sqrt(sum(_norm(t) ** 2 for t in tensors.values()) / len(tensors))


def _errors(
    outcome: Outputs, answers: dict[str, Answer], resolution: float
) -> Iterator[tuple[str, float]]:
    for place, answer in answers.items():
        came = outcome.get(place)
        fits = came is not None and came.shape == answer.value.shape
        yield place, answer.error(came, resolution) if fits else math.inf


def _those(kind: str, of: Mapping[str, T]) -> dict[str, T]:
    return {place: value for place, value in of.items() if place.startswith(kind)}


def _without_updates(of: Mapping[str, T]) -> dict[str, T]:
    return {place: value for place, value in of.items() if not place.startswith("update")}


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor))

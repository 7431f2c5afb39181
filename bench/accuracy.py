"""Is the result right? Errors against float64, and how much error is accepted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from bench.devices import Step
from bench.subject import Inputs, Subject, redraw

TOLERANCE = {"fp32": 1e-4, "tf32": 1e-3, "bf16": 2e-2, "fp16": 5e-3}
"""Relative RMS error that a healthy eager run stays well under, per dtype."""

FRESH_INPUTS = 2
"""Two, because a replayed graph that ignores its inputs is right about one of them."""

EAGER_FACTOR = 3.0
EAGER_LIMIT = 5.0

Outputs = list[torch.Tensor]


@dataclass(frozen=True)
class Exam:
    """Fresh inputs and the float64 outputs that belong to them."""

    inputs: tuple[Inputs, ...]
    answers: tuple[Outputs, ...]
    seed: int
    stochastic: bool  # float64 outputs change with the seed: nothing can be compared


def prepare(subject: Subject, seed: int) -> Exam:
    """Runs a float64 copy of `subject` on fresh inputs."""
    inputs = tuple(redraw(subject.inputs, seed + 1 + i) for i in range(FRESH_INPUTS))
    double = subject.cast(torch.float64)

    def answer(fresh: Inputs, seed: int) -> Outputs:
        return _run(
            double, lambda: double.module(*double.inputs.args, **double.inputs.kwargs), fresh, seed
        )

    with _default_dtype(torch.float64), torch.no_grad():
        answers = tuple(answer(fresh, seed) for fresh in inputs)
        again = answer(inputs[0], seed + 1)
    return Exam(inputs, answers, seed, stochastic=worst_error(again, answers[0]) != 0.0)


def examine(exam: Exam, subject: Subject, step: Step) -> float:
    """Worst relative RMS error of `step`, which reads `subject`, over outputs and fresh inputs.

    Buffers and inputs are as before when it returns; inf where the outputs have another structure.
    """
    own = subject.inputs.map(torch.clone)
    errors = [
        worst_error(_run(subject, step, fresh, exam.seed), answer)
        for fresh, answer in zip(exam.inputs, exam.answers, strict=True)
    ]
    with torch.no_grad():
        subject.inputs.assign(own)
    return max(errors)


def accepted_error(eager_error: float, dtype: str) -> float:
    """The largest error accepted where plain eager at the same dtype has `eager_error`."""
    return EAGER_FACTOR * eager_error + TOLERANCE[dtype] / 10


def eager_is_sane(error: float, dtype: str) -> bool:
    """Whether plain eager itself computes something at this dtype."""
    return math.isfinite(error) and error <= EAGER_LIMIT * TOLERANCE[dtype]


def worst_error(outputs: Outputs, answers: Outputs) -> float:
    """Largest relative RMS error over the outputs; nan where a value is not a number."""
    if [o.shape for o in outputs] != [a.shape for a in answers]:
        return math.inf
    errors = [_error(output, answer) for output, answer in zip(outputs, answers, strict=True)]
    return math.nan if any(math.isnan(error) for error in errors) else max(errors, default=0.0)


def _error(output: torch.Tensor, answer: torch.Tensor) -> float:
    if output.numel() == 0:
        return 0.0
    difference = float((output - answer).square().mean().sqrt())
    size = float(answer.square().mean().sqrt())
    return difference / size if size > 0 else difference


def _run(subject: Subject, step: Step, fresh: Inputs, seed: int) -> Outputs:
    """Outputs of `step` as float64 copies, from seeded random numbers and untouched buffers."""
    buffers = [(buffer, buffer.clone()) for buffer in subject.module.buffers()]
    with torch.no_grad():
        subject.inputs.assign(fresh)
    torch.manual_seed(seed)
    outputs = step()
    leaves = [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
    copies = [leaf.detach().to(torch.float64, copy=True) for leaf in leaves]
    with torch.no_grad():
        for buffer, before in buffers:
            buffer.copy_(before)
    return copies


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """So that constants a forward creates have the reference's precision too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)

"""Is the result right? Errors against float64, and how much error is accepted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from bench.devices import Step
from bench.subject import Inputs, Subject, redraw, state_kept

TOLERANCE = {"fp32": 1e-4, "tf32": 1e-3, "bf16": 2e-2, "fp16": 5e-3}
"""Relative RMS error that a healthy eager run stays well under, per dtype."""

FRESH_INPUTS = 2
"""Two, because a replayed graph that ignores its inputs is right about one of them."""

EAGER_FACTOR = 3.0
EAGER_LIMIT = 5.0

REPEATABLE = 1e-9
"""Float64 runs agree to this: sums in another order differ by far less, random draws by more."""

NO_TENSORS = "forward returned no tensor that could be checked (in tuples, dicts or dataclasses)"
STOCHASTIC = (
    "the model draws random numbers in forward, so its outputs cannot be checked; switch them off "
    "in eval()"
)

Outputs = dict[str, torch.Tensor]  # by its place in what forward returns, such as "[0]['logits']"


@dataclass(frozen=True)
class Exam:
    """Fresh inputs and the float64 outputs that belong to them."""

    inputs: tuple[Inputs, ...]
    answers: tuple[Outputs, ...]
    seed: int
    unfit: str | None  # why outputs cannot be compared, if so


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
    unfit = None if answers[0] else NO_TENSORS
    if worst_error(again, answers[0]) > REPEATABLE:
        unfit = STOCHASTIC
    return Exam(inputs, answers, seed, unfit)


def examine(exam: Exam, subject: Subject, step: Step) -> float:
    """Worst relative RMS error of `step`, which reads `subject`, over outputs and fresh inputs.

    Buffers and inputs are as before when it returns; inf where the outputs have another structure,
    nan where a value is not a number.
    """
    own = subject.inputs.map(torch.clone)
    errors = [
        worst_error(_run(subject, step, fresh, exam.seed), answer)
        for fresh, answer in zip(exam.inputs, exam.answers, strict=True)
    ]
    with torch.no_grad():
        subject.inputs.assign(own)
    return _worst(errors)


def accepted_error(eager_error: float, dtype: str) -> float:
    """The largest error accepted where plain eager at the same dtype has `eager_error`."""
    return EAGER_FACTOR * eager_error + TOLERANCE[dtype] / 10


def eager_is_sane(error: float, dtype: str) -> bool:
    """Whether plain eager itself computes something at this dtype."""
    return math.isfinite(error) and error <= EAGER_LIMIT * TOLERANCE[dtype]


def worst_error(outputs: Outputs, answers: Outputs) -> float:
    """Largest relative RMS error over the outputs; nan where a value is not a number."""
    if {place: o.shape for place, o in outputs.items()} != {
        place: a.shape for place, a in answers.items()
    }:
        return math.inf
    return _worst(_error(outputs[place], answer) for place, answer in answers.items())


def _worst(errors: Iterable[float]) -> float:
    """The largest; nan if there is one, which `max` would lose or keep by its position."""
    found = list(errors)
    return math.nan if any(map(math.isnan, found)) else max(found, default=0.0)


def _error(output: torch.Tensor, answer: torch.Tensor) -> float:
    if output.numel() == 0:
        return 0.0
    difference = float((output - answer).square().mean().sqrt())
    size = float(answer.square().mean().sqrt())
    return difference / size if size > 0 else difference


def _run(subject: Subject, step: Step, fresh: Inputs, seed: int) -> Outputs:
    """Outputs of `step` as float64 copies, from seeded random numbers; buffers stay as they are."""
    with torch.no_grad():
        subject.inputs.assign(fresh)
    torch.manual_seed(seed)
    with state_kept(subject.module):
        return _comparable(dict(_tensors(step())))


def _comparable(tensors: dict[str, torch.Tensor]) -> Outputs:
    """What can be right to some digits; whole numbers (token ids) only if there is nothing else.

    An argmax may flip between two equal candidates without any mode being wrong.
    """
    real = {p: t for p, t in tensors.items() if t.is_floating_point() or t.is_complex()}
    return {place: _double(tensor) for place, tensor in (real or tensors).items()}


def _tensors(outputs: object) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in `outputs` and its place: in tuples, lists, dicts and dataclasses."""
    for path, leaf in pytree.tree_flatten_with_path(outputs)[0]:
        place = pytree.keystr(path)
        if isinstance(leaf, torch.Tensor):
            yield place, leaf
        elif parts := _parts(leaf):
            yield from ((place + inner, tensor) for inner, tensor in _tensors(parts))


def _parts(leaf: object) -> dict[Any, object]:
    """What is inside a leaf that pytree does not know: a dict of a kind of its own, a dataclass."""
    if isinstance(leaf, Mapping):
        return dict(leaf)
    if dataclasses.is_dataclass(leaf):
        return {field.name: getattr(leaf, field.name) for field in dataclasses.fields(leaf)}
    return {}


def _double(tensor: torch.Tensor) -> torch.Tensor:
    """A float64 copy; a complex number becomes two real ones."""
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.detach().to(torch.float64, copy=True)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """So that constants a forward creates have the reference's precision too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)

"""Is the result right? Errors against float64, and how much error is accepted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from bench.devices import Step
from bench.outputs import Outputs, comparable
from bench.subject import Inputs, Subject, redraw, state_kept
from bench.tolerances import TOLERANCE

FRESH_INPUTS = 2
"""Two, because a replayed graph that ignores its inputs is right about one of them."""

EAGER_FACTOR = 3.0

REPEATABLE = 1e-9
"""Float64 runs agree to this: sums in another order differ by far less, random draws by more."""

GUIDE = "docs/how-to-read-a-report.md#a-wrong-result"

NO_TENSORS = "forward returned no tensor that could be checked (in tuples, dicts or dataclasses)"
STOCHASTIC = (
    "the model draws random numbers in forward, so its outputs cannot be checked; switch them off "
    "in eval()"
)


@dataclass(frozen=True)
class Exam:
    """Fresh inputs and the float64 outputs that belong to them."""

    inputs: tuple[Inputs, ...]
    answers: tuple[Outputs, ...]
    seed: int
    unfit: str | None  # why outputs cannot be compared, if so


@dataclass(frozen=True)
class Deviation:
    """The largest relative RMS error, and where it is."""

    error: float  # nan where a value is not a number, inf where the structure is another
    place: str | None


def prepare(subject: Subject, seed: int) -> Exam:
    """Runs a float64 copy of `subject` on fresh inputs."""
    inputs = tuple(redraw(subject.inputs, seed + 1 + i) for i in range(FRESH_INPUTS))
    double = subject.cast(torch.float64)

    def answer(fresh: Inputs, seed: int) -> Outputs:
        return _run(
            double, lambda: double.module(*double.inputs.args, **double.inputs.kwargs), fresh, seed
        )

    with default_dtype(torch.float64), torch.no_grad():
        answers = tuple(answer(fresh, seed) for fresh in inputs)
        again = answer(inputs[0], seed + 1)
    unfit = None if answers[0] else NO_TENSORS
    if worst(errors(again, answers[0]).items()).error > REPEATABLE:
        unfit = STOCHASTIC
    return Exam(inputs, answers, seed, unfit)


def examine(exam: Exam, subject: Subject, step: Step) -> Deviation:
    """Worst relative RMS error of `step`, which reads `subject`, over outputs and fresh inputs.

    Buffers and inputs are as before when it returns.
    """
    own = subject.inputs.map(torch.clone)
    found = [
        worst(errors(_run(subject, step, fresh, exam.seed), answer).items())
        for fresh, answer in zip(exam.inputs, exam.answers, strict=True)
    ]
    with torch.no_grad():
        subject.inputs.assign(own)
    return worst((each.place, each.error) for each in found)


def accepted_error(eager_error: float, dtype: str) -> float:
    """The largest error accepted where plain eager at the same dtype has `eager_error`."""
    return EAGER_FACTOR * eager_error + TOLERANCE[dtype] / 10


def unjudged(eager_error: float, dtype: str) -> str:
    """Why no mode is judged at `dtype`, and what to do."""
    return (
        f"even eager at {dtype} has a relative error of {eager_error:.2g} against float64, so no "
        f"mode can be judged at this dtype; take a wider dtype{_accept(eager_error)} ({GUIDE})"
    )


def too_large(error: float, place: str | None, eager: float, dtype: str, accepted: float) -> str:
    """Why an error ends a case, how far it is beyond that of eager, and what to do."""
    at = f" in {place}" if place else ""
    times = f"{error / eager:.2g} times eager's {eager:.2g}" if eager else "eager has 0"
    beyond = times if math.isfinite(error) else f"eager has {eager:.2g}"
    return (
        f"relative error {error:.2g} against float64{at}, {beyond} at {dtype}; accepted is "
        f"{accepted:.2g}; see whether seed=1 and another dtype or mode show it too"
        f"{_accept(error)} ({GUIDE})"
    )


def _accept(error: float) -> str:
    """How to accept `error`, as a clause; nothing is accepted that is not a number."""
    if not math.isfinite(error):
        return ""
    step = 10.0 ** (math.floor(math.log10(error)) - 1)
    return f", or accept it knowingly with max_error={math.ceil(error / step) * step:.2g}"


def worst(errors: Iterable[tuple[str | None, float]]) -> Deviation:
    """The largest of errors by place; one that is not a number is larger than any other."""
    found = [(math.isnan(error), error, place) for place, error in errors]
    _, error, place = max(found, key=lambda each: each[:2], default=(False, 0.0, None))
    return Deviation(error, place)


def errors(outputs: Outputs, answers: Outputs) -> dict[str | None, float]:
    """Relative RMS error of each output, or one of inf where they have another structure."""
    if {place: o.shape for place, o in outputs.items()} != {
        place: a.shape for place, a in answers.items()
    }:
        return {None: math.inf}
    return {_named(place): _error(outputs[place], answer) for place, answer in answers.items()}


def _named(place: str) -> str:
    return f"output {place}" if place else "output"


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
        return comparable(step())


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """So that constants a forward creates have the reference's precision too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)

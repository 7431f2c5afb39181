"""Finds the inputs and the reference results of a check, before anything is measured.

It calls copies of the model in plain eager. These calls separate facts about the model (it fails,
draws random numbers, depends on earlier calls) from effects of what modescope does, which is to
draw other inputs and to compute a copy in float64.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch

from modescope.bench.checking.checks import FLOAT64, Seen
from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.devices.devices import Hardware
from modescope.bench.model import geometry, trees
from modescope.bench.model.compiler import OperatorMode
from modescope.bench.model.subject import Inputs, Subject, is_plain_float, redraw
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Ended, Findings
from modescope.bench.records.tolerances import TOLERANCE, eager_is_sane

T = TypeVar("T")

REFERENCES = {FLOAT64: torch.float64, "fp32": torch.float32, "own": None}
"""The dtypes in which the reference may be computed, the best first; None means the model's own."""

REPEATABLE = 1e-9
"""Float64 runs whose relative error is at most this count as equal: another order of sums changes
far less, random numbers change far more."""

RARE_CALLS = 24
"""The number of further calls, each from another seed, if calls agree although they drew random
numbers. With a layer that is skipped with a probability of 5 %, none of the calls differs in 3 of
10 models; with four such layers, in 1 of 150."""

OTHER_PROGRAM = 0.1
"""If the error of eager against float64 is at least this, the float64 copy computes something
else."""

NUDGE = 1 + 2**-4
"""The factor by which an argument is scaled to change the outputs. bf16 represents it exactly."""

STALE_PASSES = "checked on the example alone: a mode that ignores its inputs would pass"

DRAWS_WEIGHTS = (
    "forward makes parameters in its first call ({}), so each copy of the model would have its own "
    "weights; call it once in the builder"
)

HALF = {torch.float16: "fp16", torch.bfloat16: "bf16"}


@dataclass(frozen=True)
class Calls(Generic[T]):
    """One copy of the model, and a function that calls it in plain eager.

    `results` takes inputs and a seed for random numbers, calls `module` once for each input, and
    returns the results of all calls.
    """

    module: torch.nn.Module
    results: Callable[[Sequence[Inputs], int], T]  # of a call for each input, from this seed


@dataclass(frozen=True)
class Recipe(Generic[T]):
    """How a phase calls copies of a model, and how it compares their results."""

    subject: Subject  # the model as it was built
    copy: Callable[[torch.dtype | None], Calls[T]]
    """Makes a fresh copy of the model with all floats in a dtype; None keeps their own."""
    error: Callable[[T, T], float]
    """The largest error of results against references; infinite if their structures differ."""
    finite: Callable[[T], bool]  # whether all results are finite numbers
    differ: Callable[[T, T], bool]
    """Whether results for new inputs (first argument) all differ from those for the model's example
    inputs (second argument)."""
    jumps: bool = False  # whether rounding alone may change results by far more than the tolerance


def examine(
    recipe: Recipe[T], device: Hardware, seed: int, count: int
) -> tuple[tuple[Inputs, ...], T, Seen]:
    """Finds inputs and reference results for a check, by calling copies of the model.

    Returns the inputs, their reference results, and what else the calls showed. `count` is how many
    inputs to find, if possible other ones than the model's example. They and the model's random
    numbers come from `seed`. Raises what the model raises on its example, and Ended, which gives
    the case another status than ok, if that call makes parameters.
    """
    example, usual = recipe.subject.inputs, _first_results(recipe, seed)
    name, note, inputs, plain = _valid(recipe, usual, device, seed, count)
    against, references, apart = _reference(recipe, inputs, plain, seed)
    narrowest = "fp32" if against == FLOAT64 else _precision(recipe)
    repeatable = REPEATABLE if against == FLOAT64 else TOLERANCE[narrowest] / 10

    def differ(results: T, others: T) -> bool:
        return not recipe.error(results, others) <= repeatable

    with default_dtype(REFERENCES[against]):
        used = recipe.copy(REFERENCES[against])
        used.results((example,), seed)
        before = _generators(device, seed)
        again = used.results(inputs, seed)
        drew = before != _generators(device)
        if depends := differ(again, references):
            fresh = recipe.copy(REFERENCES[against])
            repeats = not differ(fresh.results(inputs, seed), references)
            depends, is_random = repeats or not drew, drew and not repeats
        elif is_random := drew:
            drawn, seeds = used.results(inputs[:1], seed), range(seed + 1, seed + 1 + RARE_CALLS)
            is_random = any(
                differ(used.results(inputs[:1], other_seed), drawn) for other_seed in seeds
            )
    seen = Seen(name, note, against, narrowest, apart, is_random, depends)
    return inputs, references, seen


def _first_results(recipe: Recipe[T], seed: int) -> T:
    first = recipe.copy(None)
    known = {name for name, _ in first.module.named_parameters()}
    results = first.results((recipe.subject.inputs,), seed)
    if made := [name for name, _ in first.module.named_parameters() if name not in known]:
        raise Ended(Status.FAILED, DRAWS_WEIGHTS.format(", ".join(made)), Findings())
    return results


def _valid(
    recipe: Recipe[T], usual: T, device: Hardware, seed: int, count: int
) -> tuple[str, str | None, tuple[Inputs, ...], T]:
    """Returns inputs for a check: from the first of DRAWS that gives valid ones, or the example's.

    Also returns the name of the draw, a note or None, and plain eager's results for the inputs.
    Inputs are not valid if plain eager fails on them, if they make finite results infinite, or if
    their results equal `usual`, the example's: they could not show that a mode ignores its inputs.
    """
    finite, subject = recipe.finite(usual), recipe.subject
    seeds = range(seed + 1, seed + 1 + count)
    for name, draw in DRAWS:
        try:
            inputs = tuple(draw(subject, input_seed) for input_seed in seeds)
            plain = recipe.copy(None).results(inputs, seed)
            device.synchronize()  # only then does a GPU tell of an index out of range
            if recipe.differ(plain, usual) and (not finite or recipe.finite(plain)):
                return name, None, inputs, plain
        except Exception as error:
            if is_out_of_memory(error):
                raise
    inputs = tuple(_add_targets(subject.inputs, subject, input_seed) for input_seed in seeds)
    return "example", STALE_PASSES, inputs, recipe.copy(None).results(inputs, seed)


def _reference(
    recipe: Recipe[T], inputs: tuple[Inputs, ...], plain: T, seed: int
) -> tuple[str, T, float]:
    """Returns the name of the most precise reference that agrees with eager, and its results.

    `plain` are eager's results for `inputs`. REFERENCES lists the references; the last is eager
    itself. The third value is the largest error of eager against a reference that does not agree;
    errors of OTHER_PROGRAM or more are left out, and it is 0 if none remains.
    """
    apart = 0.0
    for against, dtype in REFERENCES.items():
        if dtype is None:
            break
        try:
            with default_dtype(dtype):
                references = recipe.copy(dtype).results(inputs, seed)
        except Exception:
            continue
        error, own = recipe.error(plain, references), _narrowest(recipe.subject.tensors())
        if eager_is_sane(error, own) or (
            recipe.jumps and error < math.inf and own == _precision(recipe)
        ):
            return against, references, apart
        apart = max(apart, error) if error < OTHER_PROGRAM else apart
    return against, plain, apart


def _rebuilt(subject: Subject, seed: int) -> Inputs:
    made = subject.rebuild(seed) if subject.rebuild else subject.inputs
    if _form(made) != _form(subject.inputs):
        raise ValueError("the builder's inputs have other shapes")
    return _add_targets(made, subject, seed)


def _scale_input(subject: Subject, seed: int) -> Inputs:
    nudged = subject.inputs.copy()
    with torch.no_grad():
        arguments = map(geometry.distinct, trees.tensors((nudged.args, nudged.kwargs)))
        if (scaled := next(filter(is_plain_float, arguments), None)) is not None:
            scaled.mul_(NUDGE)
    return _add_targets(nudged, subject, seed)


def _add_targets(inputs: Inputs, subject: Subject, seed: int) -> Inputs:
    """Returns `inputs` with targets like the subject's, drawn anew from `seed`."""
    return replace(inputs, targets=redraw(Inputs((), {}, subject.inputs.targets), seed).targets)


DRAWS: tuple[tuple[str, Callable[[Subject, int], Inputs]], ...] = (
    ("fresh", lambda subject, seed: redraw(subject.inputs, seed)),
    ("floats", lambda subject, seed: redraw(subject.inputs, seed, is_plain_float)),
    ("rebuilt", _rebuilt),
    ("example", _scale_input),
)
"""Ways to draw inputs for a check, in the order in which they are tried: the value of the column
`checked_inputs`, and a function of a subject and a seed."""


def _form(inputs: Inputs) -> list[object]:
    """Returns what two `inputs` must have in common so that one can be assigned to the other."""
    leaves = trees.leaves((inputs.args, inputs.kwargs))
    return [
        (place, leaf.dtype, leaf.shape, geometry.distinct(leaf).stride())
        if isinstance(leaf, torch.Tensor)
        else (place, leaf)
        for place, leaf in leaves
    ]


def _narrowest(tensors: Sequence[torch.Tensor]) -> str:
    names = {HALF.get(tensor.dtype, "fp32") for tensor in tensors}
    return max(names, key=TOLERANCE.__getitem__, default="fp32")


def _precision(recipe: Recipe[Any]) -> str:
    """Returns the narrowest precision in which the model, as it was built, computes operators."""
    inputs = (recipe.subject.inputs,)
    return precision(lambda: recipe.copy(None).results(inputs, 0), recipe.subject.tensors())


def precision(call: Callable[[], object], tensors: Sequence[torch.Tensor]) -> str:
    """Returns the narrowest precision that operators in `call` return.

    That is the one of `tensors` if an operator cannot be watched.
    """
    watch = _Dtypes()
    try:
        with watch:
            call()
    except Exception:
        return _narrowest(tensors)
    return _narrowest(watch.results)


class _Dtypes(OperatorMode):
    """Collects an empty tensor of each dtype that operators return."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[torch.Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        results = func(*args, **(kwargs or {}))
        known = {result.dtype for result in self.results}
        self.results += [
            tensor.new_empty(0) for tensor in trees.tensors(results) if tensor.dtype not in known
        ]
        return results


def _generators(device: Hardware, seed: int | None = None) -> list[object]:
    """Returns the states of the default random generators of torch, Python and NumPy.

    If `seed` is given, it first seeds torch's.
    """
    if seed is not None:
        torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    others = [random.getstate(), str(numpy.random.get_state()) if numpy else None]
    return [*(state.tolist() for state in device.generator_states()), *others]


@contextmanager
def default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    """Sets torch's default dtype within the block, so that constants made in forward have it too.

    None changes nothing.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype or before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)

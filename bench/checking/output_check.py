"""Checks the outputs of a call, and what it writes to buffers, such as a row of a KV cache.

If calls have different sizes, each size has a check of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

from modescope.bench.checking import agreement, examination, jumps
from modescope.bench.checking.buffer_writes import Writes, buffer_errors, find_writes
from modescope.bench.checking.checks import (
    Check,
    Deviation,
    RoundingCheck,
    Seen,
    accepted_error,
    worst,
)
from modescope.bench.checking.examination import REFERENCES, Calls, Recipe, default_dtype
from modescope.bench.checking.jumps import Jumps
from modescope.bench.checking.rounding import PERTURBED_RUNS, Rounded
from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.model import plain_call
from modescope.bench.model.module_state import keep_state
from modescope.bench.model.outputs import (
    Outputs,
    comparable,
    describe_unchecked,
    is_discrete,
    relative_error,
    why_incomparable,
)
from modescope.bench.model.subject import Built, Inputs, Subject
from modescope.bench.records.cases import Variant
from modescope.bench.records.errors import note_place
from modescope.bench.records.tolerances import TOLERANCE

T = TypeVar("T")

FRESH_INPUTS = 2
"""The number of inputs of a check: two, because a replayed graph that ignores its inputs is right
for one of them."""


@dataclass(frozen=True)
class Results:
    """The results of one call: its outputs, and its writes to buffers.

    `unchecked` names outputs that cannot be compared, so that `outputs` lacks them; None: all can.
    `unfit` says why there is nothing to compare; None: there is something.
    """

    outputs: Outputs
    discrete: bool  # they are whole numbers
    writes: Writes
    unchecked: str | None  # what else there was
    unfit: str | None  # why there is nothing to compare

    def without(self, places: frozenset[str]) -> Results:
        """Returns the results without the outputs at `places`."""
        left = {place: output for place, output in self.outputs.items() if place not in places}
        return replace(self, outputs=left)

    def errors(self, references: Results) -> dict[str | None, float]:
        """Returns the error of each output, and of each buffer that either of the calls wrote.

        Keys are as in `errors` and `buffer_errors`.
        """
        return {
            **errors(self.outputs, references.outputs),
            **buffer_errors(self.writes, references.writes),
        }


@dataclass(frozen=True)
class OutputCheck(Check):
    """Inputs, each with its reference outputs and writes to buffers."""

    inputs: tuple[Inputs, ...]
    references: tuple[Results, ...]
    seed: int
    kept: Subject  # the model and its inputs; on a GPU on the host, to leave its memory alone
    device: torch.device
    unfit: str | None
    seen: Seen
    unchecked: str | None
    jumps: Jumps | None = None  # what rounding explains; None where it was not asked for

    def examine(self, built: Built, variant: Variant) -> Deviation:
        """Returns the largest error over all results and inputs; restores buffers and inputs.

        It leaves out outputs that jump if rounding at the variant's precision explains how far.
        """
        own = built.subject.inputs.copy()
        runs = _runs(built.subject, built.step, self.inputs, self.seed)
        built.subject.inputs.assign(own)
        pairs = [
            (result.outputs, reference.outputs)
            for result, reference in zip(runs, self.references, strict=True)
        ]
        whole = all(reference.discrete for reference in self.references)  # classes, or masks
        agreed = agreement.agree(pairs if variant.mode.quantize and not whole else ())
        if self.jumps is None or self.jumps.dtype != variant.dtype:
            return replace(_worst(runs, self.references), agreement=agreed)
        explained = self.jumps.explained(pairs)
        found = _worst(
            [result.without(explained) for result in runs],
            [reference.without(explained) for reference in self.references],
        )
        return replace(found, explained=frozenset(map(_name, explained)), agreement=agreed)

    def doubts(self, found: Deviation, variant: Variant) -> bool:
        """Whether masks or class numbers differ: eager's own error is no standard for these."""
        discrete = all(reference.discrete for reference in self.references)
        return discrete and found.error > accepted_error(0.0, variant.dtype)

    def rounding(self, variant: Variant) -> RoundingCheck | None:
        """Returns a check that leaves out how far outputs jump by rounding; None if none jumps."""
        if (found := self.find_jumps(variant)) is None:
            return None
        subject = self.kept.cast(None).to(self.device)
        return RoundingCheck(replace(self, jumps=found), None, subject)

    def find_jumps(self, variant: Variant) -> Jumps | None:
        """Returns which outputs jump in perturbed runs; None if none, or without float64."""
        if not self.seen.is_exact:
            return None
        with default_dtype(torch.float64):
            own = self.kept.cast(torch.float64, every=True).to(self.device)
            runs = [
                _runs(
                    own,
                    _within(Rounded(variant.dtype, self.device, seed), own),
                    self.inputs,
                    self.seed,
                )
                for seed in (None, *range(PERTURBED_RUNS))
            ]
        return jumps.find(
            [[result.outputs for result in run] for run in runs],
            [reference.outputs for reference in self.references],
            variant.dtype,
        )

    def results(self, built: Built) -> Outputs:
        """Returns the outputs of one call."""
        with keep_state(built.subject.module):
            return comparable(built.step())


def prepare_check(
    subject: Subject, device: Hardware, seed: int, kept: Subject | None = None
) -> OutputCheck:
    """Prepares a check of outputs: finds inputs, and their reference results on `device`.

    The model is called with gradients only if its forward fails without them. `kept` is a copy of
    `subject` on the host; None: one is made.
    """

    def copy(dtype: torch.dtype | None) -> Calls[list[Results]]:
        own = subject.cast(dtype, every=True)
        return Calls(own.module, lambda inputs, seed: _runs(own, own.call, inputs, seed))

    def finite(results: list[Results]) -> bool:
        tensors = (tensor for result in results for tensor in result.outputs.values())
        return all(bool(tensor.isfinite().all()) for tensor in tensors)

    recipe = Recipe(
        subject,
        copy,
        error=lambda results, references: _worst(results, references).error,
        finite=finite,
        differ=lambda results, usual: all(_worst([result], usual).error != 0 for result in results),
    )
    inputs, references, seen = plain_call.call_without_gradients(
        lambda: examination.examine(recipe, device, seed, FRESH_INPUTS)
    )
    first = references[0]
    return OutputCheck(
        inputs,
        tuple(references),
        seed,
        kept or subject.on_host(),
        device.torch_device,
        first.unfit,
        seen,
        first.unchecked,
    )


def _within(context: AbstractContextManager[Any], subject: Subject) -> Step:
    def step() -> object:
        with context:
            return subject.call()

    return step


def _worst(results: Sequence[Results], references: Sequence[Results]) -> Deviation:
    pairs = zip(results, references, strict=True)
    return worst(item for result, reference in pairs for item in result.errors(reference).items())


def errors(outputs: Outputs, references: Outputs) -> dict[str | None, float]:
    """Returns the relative RMS error of each output that has elements; keys are `output PLACE`.

    If `outputs` and `references` differ in places or shapes, returns infinity under the key None.
    """
    if {place: o.shape for place, o in outputs.items()} != {
        place: r.shape for place, r in references.items()
    }:
        return {None: math.inf}
    return {
        _name(place): relative_error(outputs[place], reference)
        for place, reference in references.items()
        if reference.numel()
    }


def _name(place: str) -> str:
    return f"output {place}".rstrip()


def _runs(subject: Subject, step: Step, inputs: Sequence[Inputs], seed: int) -> list[Results]:
    """Returns float64 copies of the results of `step` for each of `inputs`; restores buffers.

    Random numbers are seeded before each call. The last of `inputs` stays assigned.
    """
    runs = []
    for fresh in inputs:
        subject.inputs.assign(fresh)
        torch.manual_seed(seed)
        with keep_state(subject.module) as before:
            output = step()
            writes = find_writes(subject.module, before)
            unfit = why_incomparable(output)
            outputs, unchecked = comparable(output), describe_unchecked(output)
            runs.append(Results(outputs, is_discrete(output), writes, unchecked, unfit))
    return runs


@dataclass(frozen=True)
class MixedCheck(Check):
    """A check of outputs at each size."""

    parts: Mapping[str, OutputCheck]
    kept: Subject  # as of `OutputCheck`
    unfit: str | None
    seen: Seen
    unchecked: str | None

    def examine(self, built: Built, variant: Variant) -> Deviation:
        """Returns the largest error over the sizes that are called; its place names the size."""
        by_size = dict(self._each(built, lambda check, part: check.examine(part, variant)))
        found = worst(
            (f"{deviation.place or 'output'} at {name}", deviation.error)
            for name, deviation in by_size.items()
            if not deviation.compares_nothing
        )
        explained = {
            f"{p} at {name}" for name, deviation in by_size.items() for p in deviation.explained
        }
        return replace(found, explained=frozenset(explained))

    def doubts(self, found: Deviation, variant: Variant) -> bool:
        """Whether any part doubts it."""
        return any(part.doubts(found, variant) for part in self.parts.values())

    def rounding(self, variant: Variant) -> RoundingCheck | None:
        """Returns a check whose parts leave out how far outputs jump; None if none jumps."""
        found = {name: part.find_jumps(variant) for name, part in self.parts.items()}
        if not any(found.values()):
            return None
        parts = {name: replace(part, jumps=found[name]) for name, part in self.parts.items()}
        first = next(iter(self.parts.values()))
        subject = self.kept.cast(None).to(first.device)
        return RoundingCheck(replace(self, parts=parts), None, subject)

    def results(self, built: Built) -> Outputs:
        """Returns the outputs of one call at each size; the keys are `PLACE at SIZE`."""
        return {
            f"{place} at {name}": value
            for name, outputs in self._each(built, lambda check, part: check.results(part))
            for place, value in outputs.items()
        }

    def _each(
        self, built: Built, examine: Callable[[OutputCheck, Built], T]
    ) -> Iterator[tuple[str, T]]:
        for name, part in built.parts.items():
            with note_place(name):
                yield name, examine(self.parts[name], part)


def prepare_mixed_check(subject: Subject, device: Hardware, seed: int) -> MixedCheck:
    """Prepares a check like `prepare_check`, for every size."""
    checks, kept = {}, subject.on_host()
    for name, part in subject.parts.items():
        with note_place(name):
            checks[name] = prepare_check(part, device, seed, kept.parts[name])
    every = [check.seen for check in checks.values()]
    first = next(iter(checks.values()))
    seen = replace(
        first.seen,
        checked_against=max((part.checked_against for part in every), key=list(REFERENCES).index),
        narrowest=max((part.narrowest for part in every), key=TOLERANCE.__getitem__),
        apart=max(part.apart for part in every),
        random=any(part.random for part in every),
        depends=any(part.depends for part in every),
    )
    return MixedCheck(checks, kept, first.unfit, seen, first.unchecked)

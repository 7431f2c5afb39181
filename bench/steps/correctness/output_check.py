"""The check of outputs and written buffers against float64, and how much error is accepted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from modescope.bench.devices.devices import Step
from modescope.bench.records.cases import Variant
from modescope.bench.steps.built_step import Built
from modescope.bench.steps.check import Check, Deviation, Limit, accepted_error, worst
from modescope.bench.steps.correctness import written_buffers
from modescope.bench.steps.correctness.written_buffers import Writes
from modescope.bench.steps.outputs import Outputs, comparable, nothing_to_compare, unchecked
from modescope.bench.steps.subject import Inputs, Subject, redraw, state_kept

FRESH_INPUTS = 2
"""Two, because a replayed graph that ignores its inputs is right for one of them."""

REPEATABLE = 1e-9
"""Float64 runs agree to this: another order of sums changes far less, random numbers far more."""


@dataclass(frozen=True)
class Results:
    """All that is compared of one call."""

    outputs: Outputs
    writes: Writes

    def errors(self, references: Results) -> dict[str | None, float]:
        """Of each output, and of each buffer that either of both wrote."""
        return {
            **errors(self.outputs, references.outputs),
            **written_buffers.errors(self.writes, references.writes),
        }


@dataclass(frozen=True)
class OutputCheck(Check):
    """Fresh inputs and what belongs to them in float64: outputs, and what is written to buffers."""

    inputs: tuple[Inputs, ...]
    references: tuple[Results, ...]
    seed: int
    unfit: str | None
    random: bool
    unchecked: str | None = None

    def examine(self, built: Built, variant: Variant) -> Deviation:
        """As `Check.examine`."""
        return deviation(self, built.subject, built.step)

    def results(self, built: Built) -> Outputs:
        """The outputs."""
        with state_kept(built.subject.module):
            return comparable(built.step())

    def limit(self, eager: Deviation, variant: Variant) -> Limit:
        """As `Check.limit`."""
        return Limit(accepted_error(eager.error, variant.dtype))


def prepare(subject: Subject, seed: int) -> OutputCheck:
    """Runs a float64 copy of `subject` on fresh inputs."""
    inputs = tuple(redraw(subject.inputs, seed + 1 + i) for i in range(FRESH_INPUTS))
    double = subject.cast(torch.float64)
    left_out: list[str | None] = []
    unfit: list[str | None] = []

    def forward() -> object:
        output = double.module(*double.inputs.args, **double.inputs.kwargs)
        left_out.append(unchecked(output))
        unfit.append(nothing_to_compare(output))
        return output

    with default_dtype(torch.float64), torch.no_grad():
        references = tuple(_run(double, forward, fresh, seed) for fresh in inputs)
        again = _run(double, forward, inputs[0], seed + 1)
    random = worst(again.errors(references[0]).items()).error > REPEATABLE
    return OutputCheck(inputs, references, seed, unfit[0], random, left_out[0])


def deviation(check: OutputCheck, subject: Subject, step: Step) -> Deviation:
    """Worst relative error of `step`, which reads `subject`, over all results and fresh inputs.

    Buffers and inputs are restored on return.
    """
    own = subject.inputs.copied()
    deviations = [
        worst(_run(subject, step, fresh, check.seed).errors(reference).items())
        for fresh, reference in zip(check.inputs, check.references, strict=True)
    ]
    subject.inputs.assign(own)
    return worst((each.place, each.error) for each in deviations)


def errors(outputs: Outputs, references: Outputs) -> dict[str | None, float]:
    """Relative RMS error of each output, or a single inf where the structures differ."""
    if {place: o.shape for place, o in outputs.items()} != {
        place: r.shape for place, r in references.items()
    }:
        return {None: math.inf}
    return {
        f"output {place}".rstrip(): _error(outputs[place], reference)
        for place, reference in references.items()
    }


def _error(output: torch.Tensor, reference: torch.Tensor) -> float:
    if output.numel() == 0:
        return 0.0
    difference = float((output - reference).square().mean().sqrt())
    size = float(reference.square().mean().sqrt())
    return difference / size if size > 0 else difference


def _run(subject: Subject, step: Step, fresh: Inputs, seed: int) -> Results:
    """Results of `step` as float64 copies, from seeded random numbers; buffers stay as they are."""
    subject.inputs.assign(fresh)
    torch.manual_seed(seed)
    with state_kept(subject.module) as before:
        outputs = comparable(step())
        return Results(outputs, written_buffers.written(subject.module, before))


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Sets torch's default dtype, so that constants made in forward have the reference's too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)

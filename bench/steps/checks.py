"""The interface of checks, the errors that they find, and the limits of accepted errors."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from modescope.bench.records.cases import TOLERANCE, Variant
from modescope.bench.steps.outputs import Outputs
from modescope.bench.steps.subject import Built, Subject

EAGER_FACTOR = 3.0

LEAST_SCALE = 1e-4
"""An error of a gradient's scale (`Deviation.scales`) up to this is always accepted."""

FLOAT64 = "float64"


@dataclass(frozen=True)
class Seen:
    """What calls in plain eager showed of a model, and what its results are compared with."""

    checked_inputs: str = "fresh"  # column
    note: str | None = None  # on those inputs
    checked_against: str = FLOAT64  # column
    narrowest: str = "fp32"  # precision of the reference
    apart: float = 0.0  # error of eager against float64, where that is not the reference
    random: bool = False  # forward draws random numbers, so that results differ from call to call
    depends: bool = False  # results depend on earlier calls

    def tolerance(self, variant: Variant) -> float:
        """The relative error to accept, at the precision of `variant` or a narrower reference."""
        return max(TOLERANCE[variant.dtype], TOLERANCE[self.narrowest])

    @property
    def is_exact(self) -> bool:
        """Whether the reference is far more precise than any variant."""
        return self.checked_against == FLOAT64


@dataclass(frozen=True)
class Deviation:
    """The largest relative error of results against a reference, and its place."""

    error: float  # nan where a value is not a number, inf where the structure differs
    place: str | None
    scales: Mapping[str, float] = field(default_factory=dict)
    """By gradient or update: how far the factor between it and its value in float64 is from 1."""

    @property
    def scale(self) -> float:
        """The largest of `scales`; 0 without any."""
        return worst(self.scales.items()).error


@dataclass(frozen=True)
class Limit:
    """The largest `error` and `scale` of a `Deviation` that are accepted."""

    error: float
    scale: float = math.inf
    larger: Mapping[str, float] = field(default_factory=dict)
    """Limits of the scales of single parameters, where larger than `scale`; keys as from
    `parameter`."""

    def accepts(self, found: Deviation) -> bool:
        """Whether all errors of `found` are within this limit; nan is not."""
        return found.error <= self.error and self.worst_scale(found).share <= 1

    def covers(self, other: Limit) -> bool:
        """Whether `error` and `scale` are at least those of `other`."""
        return other.error <= self.error and other.scale <= self.scale

    def worst_scale(self, found: Deviation) -> Scale:
        """The scale in `found` that comes nearest to its limit, or exceeds it most."""
        scales = [
            Scale(place, value, max(self.scale, self.larger.get(parameter(place), 0.0)))
            for place, value in found.scales.items()
        ]
        return max(scales, key=lambda each: each.share, default=Scale(None, 0.0, self.scale))


@dataclass(frozen=True)
class Scale:
    """How far the factor between a gradient or update and its reference is from 1; its limit."""

    place: str | None
    value: float
    limit: float

    @property
    def share(self) -> float:
        """Of the limit; infinite for what is not a number, and beyond a limit of 0."""
        if math.isnan(self.value):
            return math.inf
        if self.value == 0 or self.limit == math.inf:
            return 0.0
        return self.value / self.limit if self.limit else math.inf


def parameter(place: str) -> str:
    """`gradient of 0.weight` for `gradient of 0.weight in step 2`."""
    return place.rpartition(" in step ")[0] or place


@dataclass(frozen=True)
class StateCheck:
    """Whether a step handles its own state correctly."""

    reason: str | None = None  # what is wrong
    columns: dict[str, Any] = field(default_factory=dict)  # of `bench.records.results.Findings`


class Check(Protocol):
    """Inputs, and the reference results for them, with which the results of a step are compared."""

    unfit: str | None  # why nothing can be compared with the reference; None where it can
    seen: Seen
    unchecked: str | None = None  # outputs that are not compared, where any are

    @abstractmethod
    def examine(self, built: Built, variant: Variant) -> Deviation:
        """The largest errors of `built.step`, against the reference; restores all state."""

    @abstractmethod
    def results(self, built: Built) -> Outputs:
        """The results of one step on the example inputs; buffers and state are as before."""

    def limit(self, eager: Deviation | None, variant: Variant) -> Limit:
        """The errors to accept of `variant`, given those of plain eager at the same dtype.

        `eager` is None where plain eager is the reference itself.
        """
        if eager is None:
            tolerance = max(self.seen.tolerance(variant), EAGER_FACTOR * self.seen.apart)
            return Limit(tolerance, tolerance)
        scale = max(LEAST_SCALE, accepted_error(eager.scale, variant.dtype))
        return Limit(accepted_error(eager.error, variant.dtype), scale)

    def rounding(self, variant: Variant) -> RoundingCheck | None:
        """A check, and the errors in it that rounding alone causes at the precision of `variant`.

        None where these are not known. This takes several steps of the reference, so it is only for
        errors that are in doubt.
        """
        return None

    def examine_state(self, built: Built) -> StateCheck:
        """Checks how the step handles its own state, beside its results; restores all state."""
        return StateCheck()


@dataclass(frozen=True)
class RoundingCheck:
    """A check, and the largest errors in it that rounding alone may give to a correct step."""

    check: Check
    limit: Limit
    subject: Subject  # the model and inputs that were checked, in fp32


def accepted_error(eager_error: float, dtype: str) -> float:
    """The largest error accepted where plain eager at the same dtype has `eager_error`."""
    return EAGER_FACTOR * eager_error + TOLERANCE[dtype] / 10


def worst(errors: Iterable[tuple[str | None, float]]) -> Deviation:
    """The largest of `errors`, which are pairs of place and error; nan counts as largest."""
    ranked = ((math.isnan(error), error, place) for place, error in errors)
    _, error, place = max(ranked, key=lambda each: each[:2], default=(False, 0.0, None))
    return Deviation(error, place)

"""The interface of checks, the errors that they find, and the limits of accepted errors."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from modescope.bench.checking.agreement import Agreement
from modescope.bench.model.outputs import Outputs
from modescope.bench.model.subject import Built, Subject
from modescope.bench.records.cases import Variant
from modescope.bench.records.columns.checks import LossScaling
from modescope.bench.records.tolerances import QUANTIZED, TOLERANCE

EAGER_FACTOR = 3.0

LEAST_SCALE = 1e-4
"""An error of a gradient's scale (`Deviation.scales`) up to this is always accepted."""

FLOAT64 = "float64"


@dataclass(frozen=True)
class Seen:
    """What calls in plain eager showed about a model, and what its results are compared with.

    `checked_inputs` says how the inputs of the check were found, and `checked_against` which
    reference is used; both are values of the columns of these names. `note` is a remark on the
    inputs; None if there is none.
    """

    checked_inputs: str = "fresh"  # column
    note: str | None = None  # on those inputs
    checked_against: str = FLOAT64  # column
    narrowest: str = "fp32"  # precision of the reference
    apart: float = 0.0  # error of eager against float64, where that is not the reference
    random: bool = False  # forward draws random numbers, so that results differ from call to call
    depends: bool = False  # results depend on earlier calls

    def tolerance(self, variant: Variant) -> float:
        """Returns the error to accept.

        It is the largest of the tolerances of the variant's dtype, of fewer bits of weights,
        and of the reference's precision.
        """
        usual = max(TOLERANCE[variant.dtype], TOLERANCE[self.narrowest])
        return max(usual, _of_fewer_bits(variant))

    @property
    def is_exact(self) -> bool:
        """Whether the reference is in float64, far more precise than any variant."""
        return self.checked_against == FLOAT64


@dataclass(frozen=True)
class Deviation:
    """The largest relative error of results against a reference, and the result that has it.

    `place` names that result, such as `output [0]`; None if the results differ in structure, or if
    nothing was compared.
    """

    error: float  # nan where a value is not a number, inf where the structure differs
    place: str | None
    scales: Mapping[str, float] = field(default_factory=dict)
    """For each gradient or update: how far its ratio to its value in float64 is from 1."""
    explained: frozenset[str] = frozenset()
    """Places that are left out of `error`, because rounding explains their differences."""
    agreement: Agreement = field(default_factory=Agreement)
    """How outputs agree, where weights have fewer bits."""

    @property
    def compares_nothing(self) -> bool:
        """Whether there was no result to compare, or none that rounding does not explain."""
        return self.place is None and self.error == 0

    @property
    def scale(self) -> float:
        """The largest of `scales`; 0 if there are none."""
        return worst(self.scales.items()).error


@dataclass(frozen=True)
class Limit:
    """The largest accepted `error` and `scale` of a `Deviation`."""

    error: float
    scale: float = math.inf
    larger: Mapping[str, float] = field(default_factory=dict)
    """Limits of the scales of single parameters, if larger than `scale`; `parameter` returns the
    keys."""

    def accepts(self, found: Deviation) -> bool:
        """Whether all errors of `found` are within this limit; nan never is."""
        return found.error <= self.error and self.worst_scale(found).share <= 1

    def covers(self, other: Limit) -> bool:
        """Whether this limit's `error` and `scale` are at least those of `other`."""
        return other.error <= self.error and other.scale <= self.scale

    def worst_scale(self, found: Deviation) -> Scale:
        """Returns the scale in `found` that comes nearest to its limit, or exceeds it most."""
        scales = [
            Scale(place, value, max(self.scale, self.larger.get(parameter(place), 0.0)))
            for place, value in found.scales.items()
        ]
        return max(scales, key=lambda scale: scale.share, default=Scale(None, 0.0, self.scale))


CHAOS = Limit(0.7, 0.35)
"""The largest errors that rounding is allowed to explain. Where perturbed runs exceed either,
rounding could explain any error, so only steps that are about as close to float64 as eager count as
right. For comparison: a gradient that is missing has an error of 1, one of another batch about 1.4,
half a gradient a scale error of 0.5."""


@dataclass(frozen=True)
class Scale:
    """How far the ratio of one gradient or update to its reference is from 1, and its limit.

    `place` names the gradient or update, and `value` is the distance from 1. Without gradients and
    updates, `place` is None and `value` 0.
    """

    place: str | None
    value: float
    limit: float

    @property
    def share(self) -> float:
        """`value` ÷ `limit`; infinite if `value` is nan, or above a limit of 0."""
        if math.isnan(self.value):
            return math.inf
        if self.value == 0 or self.limit == math.inf:
            return 0.0
        return self.value / self.limit if self.limit else math.inf


def parameter(place: str) -> str:
    """Returns the name of a gradient or update without the step that it comes from.

    `gradient of 0.weight in step 2` becomes `gradient of 0.weight`.
    """
    return place.rpartition(" in step ")[0] or place


@dataclass(frozen=True)
class StateCheck:
    """The result of checking how a step handles its own state, such as a loss scale.

    `reason` says what is wrong; None: nothing.
    """

    reason: str | None = None
    scaling: LossScaling | None = None  # what was found; None: the step scales no loss


class Check(Protocol):
    """Inputs and their reference results, with which the results of a step are compared."""

    unfit: str | None  # why nothing can be compared with the reference; None where it can
    seen: Seen
    unchecked: str | None = None  # outputs that are not compared, where any are

    @abstractmethod
    def examine(self, built: Built, variant: Variant) -> Deviation:
        """Runs `built.step` and returns its largest errors against the reference.

        Restores all state.
        """

    @abstractmethod
    def results(self, built: Built) -> Outputs:
        """Returns the results of one step on the example inputs; restores buffers and state."""

    def limit(self, eager: Deviation | None, variant: Variant) -> Limit:
        """Returns the errors to accept from `variant`, given those of plain eager at its dtype.

        Eager has all bits of the weights; what fewer bits add has a tolerance of its own. `eager`
        is None if plain eager is the reference itself.
        """
        if eager is None:
            tolerance = max(self.seen.tolerance(variant), EAGER_FACTOR * self.seen.apart)
            return Limit(tolerance, tolerance)
        scale = max(LEAST_SCALE, accepted_error(eager.scale, variant.dtype))
        usual = accepted_error(eager.error, variant.dtype)
        return Limit(usual + _of_fewer_bits(variant), scale)

    def doubts(self, found: Deviation, variant: Variant) -> bool:
        """Whether errors are to be explained by rounding although they are within the limit."""
        return False

    def rounding(self, variant: Variant) -> RoundingCheck | None:
        """Returns a check that knows what rounding at the variant's precision may do to results.

        The check may use other batches than this one. None if this is not known, or is nothing
        unusual. Call it only if an error is in doubt: it takes several steps of the reference.
        """
        return None

    def examine_state(self, built: Built) -> StateCheck:
        """Checks how the step handles its own state, apart from its results; restores all state."""
        return StateCheck()


@dataclass(frozen=True)
class RoundingCheck:
    """A check, and the largest errors that rounding may cause in it if a step is correct.

    `limit` is None if `check` itself leaves out what rounding explains.
    """

    check: Check
    limit: Limit | None
    subject: Subject  # the model and inputs that were checked, in fp32


def accepted_error(eager_error: float, dtype: str) -> float:
    """Returns the largest accepted error if plain eager has `eager_error` at the same dtype."""
    return EAGER_FACTOR * eager_error + TOLERANCE[dtype] / 10


def _of_fewer_bits(variant: Variant) -> float:
    """Returns the error to accept because weights have fewer bits; 0 if they have all."""
    return QUANTIZED.get(variant.mode.quantize or "", 0.0)


def worst(errors: Iterable[tuple[str | None, float]]) -> Deviation:
    """Returns the largest of `errors`, which are pairs (place, error), as a Deviation.

    nan counts as largest. Without errors the result has error 0 and place None.
    """
    ranked = ((math.isnan(error), error, place) for place, error in errors)
    _, error, place = max(ranked, key=lambda key: key[:2], default=(False, 0.0, None))
    return Deviation(error, place)

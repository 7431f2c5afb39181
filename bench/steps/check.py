"""The protocol of correctness checks, of which each phase has its own."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from modescope.bench.records.cases import Variant
from modescope.bench.records.tolerances import TOLERANCE
from modescope.bench.steps.built_step import Built
from modescope.bench.steps.model_and_inputs import Subject
from modescope.bench.steps.outputs import Outputs

EAGER_FACTOR = 3.0


@dataclass(frozen=True)
class Deviation:
    """The largest relative errors, and where they are."""

    error: float  # nan where a value is not a number, inf where the structure differs
    place: str | None
    scale: float = 0.0  # of gradients and updates: how far the factor over float64 is from 1
    scale_place: str | None = None


@dataclass(frozen=True)
class Limit:
    """The largest errors that are accepted, as in `Deviation`."""

    error: float
    scale: float = math.inf

    def accepts(self, found: Deviation) -> bool:
        """Whether both errors are within; nan is not."""
        return found.error <= self.error and found.scale <= self.scale

    def covers(self, other: Limit) -> bool:
        """Whether whatever the other accepts is accepted here too."""
        return other.error <= self.error and other.scale <= self.scale

    def widened(self, other: Limit) -> Limit:
        """What either of two limits accepts, error by error."""
        return Limit(max(self.error, other.error), max(self.scale, other.scale))


@dataclass(frozen=True)
class StateCheck:
    """Whether a step handles its own state correctly."""

    reason: str | None = None  # what is wrong
    columns: dict[str, Any] = field(default_factory=dict)  # of `bench.records.results.Findings`


class Check(Protocol):
    """Fresh inputs, and the results of a float64 reference for them."""

    unfit: str | None  # why nothing can be compared with the reference; None where it can
    random: bool  # whether forward draws random numbers, so that results differ from call to call

    @abstractmethod
    def examine(self, built: Built, variant: Variant) -> Deviation:
        """The largest errors of `built.step`; all state is restored on return."""

    @abstractmethod
    def results(self, built: Built) -> Outputs:
        """The results of one step on the example inputs; buffers and state are as before."""

    @abstractmethod
    def limit(self, eager: Deviation, variant: Variant) -> Limit:
        """The errors that are usual where plain eager has these."""

    def rounding(self, variant: Variant) -> RoundingCheck | None:
        """The errors that rounding alone causes at this precision; None where they are not known.

        This takes several steps of the reference, so it is only for errors that are in doubt.
        """
        return None

    def examine_state(self, built: Built) -> StateCheck:
        """Checks what cannot be compared with float64; all state is restored on return."""
        return StateCheck()


@dataclass(frozen=True)
class RoundingCheck:
    """A check, and the errors that correct steps may have in it for their rounding."""

    check: Check
    limit: Limit
    subject: Subject  # the model and inputs that were checked, in fp32


def accepted_error(eager_error: float, dtype: str) -> float:
    """The largest error accepted where plain eager at the same dtype has `eager_error`."""
    return EAGER_FACTOR * eager_error + TOLERANCE[dtype] / 10


def worst(errors: Iterable[tuple[str | None, float]]) -> Deviation:
    """The largest of errors by place; nan counts as larger than any other."""
    ranked = ((math.isnan(error), error, place) for place, error in errors)
    _, error, place = max(ranked, key=lambda each: each[:2], default=(False, 0.0, None))
    return Deviation(error, place)

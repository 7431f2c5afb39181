"""The protocol of correctness checks, of which each phase has its own."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Protocol

from modescope.bench.records.cases import Variant
from modescope.bench.records.tolerances import eager_is_sane
from modescope.bench.steps.built_step import Built


@dataclass(frozen=True)
class Deviation:
    """The largest relative error, and where it is."""

    error: float  # nan where a value is not a number, inf where the structure differs
    place: str | None


@dataclass(frozen=True)
class StateCheck:
    """Whether a step handles its own state correctly."""

    reason: str | None = None  # what is wrong
    columns: dict[str, Any] = field(default_factory=dict)  # of `bench.records.results.Findings`


class Check(Protocol):
    """Fresh inputs, and the results of a float64 reference for them."""

    unfit: str | None  # why nothing can be compared with the reference; None where it can
    unchecked: str | None = None  # outputs that are not compared, where any are

    @abstractmethod
    def examine(self, built: Built, variant: Variant, limit: float = math.inf) -> Deviation:
        """The largest error of `built.step`; all state is restored on return.

        Errors above `limit`, the largest that is accepted, may be examined further.
        """

    def eager_is_sane(self, error: float, dtype: str) -> bool:
        """Whether this error of plain eager is small enough to compare modes with it."""
        return eager_is_sane(error, dtype)

    def examine_state(self, built: Built) -> StateCheck:
        """Checks what cannot be compared with float64; all state is restored on return."""
        return StateCheck()

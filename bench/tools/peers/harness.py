"""The record of a harness: how it measures a step, and how its users compare two steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from modescope.bench.devices.devices import Device
from modescope.bench.tools.peers.rules import DecisionRule
from modescope.bench.tools.peers.sides import CallTimes, Compare, one_after_the_other
from modescope.bench.tools.testbed.sides import Side


@dataclass(frozen=True)
class Criterion:
    """A rule by which users of a harness call two steps different."""

    decide: DecisionRule
    words: str
    source: str  # where the rule is documented, or that it is assumed
    name: str | None = None  # if a harness has several


@dataclass(frozen=True)
class Harness:
    """A way to measure a step and to compare two steps."""

    name: str
    reports: str  # its figure in words: statistic, cache, synchronisation, cost of the loop
    clock: str  # the clock in `ours.CLOCKS` that measures the same quantity
    differs: str  # why the two figures are not equal
    measure: Callable[[Side, float | None], CallTimes]  # None: its default duration
    figure: Callable[[CallTimes], float]
    criteria: tuple[Criterion, ...]  # all decide on the same samples
    together: Compare | None = None  # if it measures both sides interleaved
    needs: str | None = None  # an optional package
    cuda: bool = False  # whether it measures only CUDA GPUs

    @property
    def compare(self) -> Compare:
        """Measures two sides for a given time: interleaved, or one after the other."""
        return self.together or one_after_the_other(self.measure)

    def judging(self, criterion: Criterion) -> str:
        """The name of a row of decisions by this criterion."""
        return f"{self.name}, {criterion.name}" if criterion.name else self.name

    def missing(self, device: Device) -> str | None:
        """Why it cannot be used here; None if it can."""
        if self.cuda and device.type != "cuda":
            return "needs a CUDA GPU"
        if self.needs and find_spec(self.needs) is None:
            return f"needs {self.needs.replace('_', '-')}, which is not installed"
        return None

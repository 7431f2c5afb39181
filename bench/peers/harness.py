"""What a harness is: how it measures a step, and how its users tell two apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from bench.devices import Device
from bench.peers.rules import Rule
from bench.peers.sides import Compare, Samples, one_after_the_other
from bench.testbed.sides import Side


@dataclass(frozen=True)
class Criterion:
    """How users of a harness call two steps different."""

    decide: Rule
    words: str
    source: str  # where that is documented, or that it is assumed
    name: str | None = None  # where a harness has several


@dataclass(frozen=True)
class Harness:
    """Somebody's way to measure a step and to tell two apart."""

    name: str
    reports: str  # what its figure is: statistic, cache, where it synchronises, the loop's cost
    clock: str  # which of `ours.CLOCKS` asks the same question
    differs: str  # why the two figures are not equal
    measure: Callable[[Side, float | None], Samples]  # None: as long as it takes by default
    figure: Callable[[Samples], float]
    criteria: tuple[Criterion, ...]  # all of them decide on the same samples
    together: Compare | None = None  # where it measures both sides in one go
    needs: str | None = None  # package that is not always installed
    cuda: bool = False  # whether it measures CUDA GPUs only

    @property
    def compare(self) -> Compare:
        """Measures two sides for a given time: in one go, or one after the other."""
        return self.together or one_after_the_other(self.measure)

    def judging(self, criterion: Criterion) -> str:
        """What a row of decisions by this criterion is called."""
        return f"{self.name}, {criterion.name}" if criterion.name else self.name

    def missing(self, device: Device) -> str | None:
        """Why it cannot be used here, or None."""
        if self.cuda and device.type != "cuda":
            return "needs a CUDA GPU"
        if self.needs and find_spec(self.needs) is None:
            return f"needs {self.needs.replace('_', '-')}, which is not installed"
        return None

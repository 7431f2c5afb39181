"""Watches what a run of `bench.case.runner` builds, checks and times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from modescope.bench.checking import training_check
from modescope.bench.checking.checks import Deviation
from modescope.bench.checking.output_check import OutputCheck
from modescope.bench.checking.training_check import TrainingCheck
from modescope.bench.devices.devices import Step
from modescope.bench.model.subject import Built
from modescope.bench.modes import modes
from modescope.bench.records.columns.timing import Rounds
from modescope.bench.timing import comparison, paired
from modescope.bench.timing.comparison import WarmUp


class Watch:
    """What a run built, checked and timed.

    The first steps in `built` are plain eager, the candidate and its baseline, in this order.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.built: list[Built] = []
        self.checked: list[Built] = []
        self.timed: tuple[Step, Step | None] | None = None
        self.before_warm_up: Callable[[], None] = lambda: None
        self.before_timing: Callable[[], None] = lambda: None
        build, warm_up = modes.build, comparison.warm_up

        def watched_build(*arguments: Any) -> Built:
            made = build(*arguments)
            if arguments[1] is not training_check.REFERENCE:
                self.built.append(made)
            return made

        def watched_warm_up(*arguments: Any) -> WarmUp:
            self.before_warm_up()
            return warm_up(*arguments)

        def watched_pairs(case: Step, baseline: Step | None, *others: Any) -> Rounds:
            self.timed = case, baseline
            self.before_timing()
            return paired.play_pairs(case, baseline, *others)

        patch.setattr(modes, "build", watched_build)
        patch.setattr(comparison, "warm_up", watched_warm_up)
        patch.setattr(comparison, "play_pairs", watched_pairs)
        for check in (OutputCheck, TrainingCheck):
            patch.setattr(check, "examine", self._watched(check.examine))

    def _watched(self, examine: Callable[..., Deviation]) -> Callable[..., Deviation]:
        def watched(check: Any, built: Built, *others: Any) -> Deviation:
            self.checked.append(built)
            return examine(check, built, *others)

        return watched

    @property
    def candidate(self) -> Built:
        return self.built[1]

    @property
    def baseline(self) -> Built:
        return self.built[2]

    def assert_the_checked_steps_are_timed(self) -> None:
        """Asserts that the steps that were checked are those that were timed.

        Plain eager, the candidate and the baseline are checked, then the candidate again.
        """
        eager, candidate, baseline = self.built[:3]
        assert list(map(id, self.checked)) == list(map(id, [eager, candidate, baseline, candidate]))
        assert self.timed == (candidate.step, baseline.step)
        assert candidate.step is not baseline.step

"""A made-up machine that answers calls of child processes at once, so that nothing is measured."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modescope.bench.records.cases import Case, Model
from modescope.bench.records.columns.checks import Checks
from modescope.bench.records.columns.timing import Rounds
from modescope.bench.records.environment import DeviceFacts, Environment, Host
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Findings, Result
from modescope.bench.sweep.isolation import ChildOutcome, Ending, Task
from tests.helpers.made_up_records import CPU, part


@dataclass
class World:
    """A made-up machine, and how each case ends on it."""

    torch_version: str = "2.13.0"
    device: DeviceFacts = CPU
    model_file: Path | None = None
    status: Status = Status.OK
    reason: str | None = None
    slower: dict[str, float] = field(default_factory=dict)  # factors of a mode's times
    measured: list[tuple[Case, Plan]] = field(default_factory=list)

    def call(self, task: Task[Any], *arguments: Any, **options: Any) -> ChildOutcome[Any]:
        """Stands in for `isolation.call`."""
        answers: dict[str, Callable[..., object]] = {
            "modescope.bench.sweep.host:read": self._host,
            "modescope.bench.sweep.host:try_model": self._tried,
            "modescope.bench.case.runner:run": self._measured,
            "modescope.bench.case.runner:fill": self._measured,
            "modescope.bench.versus.sides:imported_files": self._imported,
        }
        return ChildOutcome(Ending.RETURNED, answers[task.function](*arguments))

    def _host(self, device: str) -> Host:
        environment = part(
            Environment,
            environment_id=None,
            torch_version=self.torch_version,
            driver_version=None,
            model_source_id=None,
            cpu_cores=2,
        )
        return Host(self.device, environment)

    def _tried(self, model: Model, *others: Any) -> tuple[str, dict[str, str]]:
        content = self.model_file.read_bytes() if self.model_file else b""
        return hashlib.sha256(content).hexdigest(), {}

    def _imported(self, targets: Sequence[str]) -> list[str]:
        return [str(self.model_file)]

    def _measured(self, case: Case, plan: Plan, run_id: str) -> Result:
        self.measured.append((case, plan))
        spread = 1 + 1e-3 * random.Random(len(self.measured)).random()
        times = tuple(1e-4 * spread * (1 + 1e-5 * i) for i in range(12))
        slower = self.slower.get(case.variant.mode.name, 1.0)
        rounds = Rounds(
            timed_s=1.0,
            calls_per_round=1,
            latency_rounds_s=tuple(slower * time for time in times),
            baseline_latency_rounds_s=times,
        )
        findings = Findings(Checks(in_effect=True, error=1e-7, error_limit=1e-5), rounds=rounds)
        return Result(
            self.status, self.reason, findings if self.status == Status.OK else Findings()
        )

"""`data=cold_weights` from a case to its row: who is evicted when, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import nn

from modescope.bench.case import runner
from modescope.bench.devices.devices import Cpu, Evictor
from modescope.bench.evidence import cold_data
from modescope.bench.records.cases import COLD_WEIGHTS, WARM, Case, Inference
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Result
from modescope.bench.timing import timers
from tests.helpers.probe_models import case, linear, model, silent, smoke, variant

MIB = 2**20


def wide() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """16 MiB of weights, more than a core's second-level cache holds."""
    return nn.Linear(2048, 2048), (torch.randn(1, 2048),)


def asked(build: object, data: str) -> Case:
    made = case(model(build), variant(grad="no_grad"))  # type: ignore[arg-type]
    return replace(made, options=Inference(data=data))


class Counted:
    """Evictors that evict nothing, by the number of tensors and the address of the first one."""

    def __init__(self) -> None:
        self.evictions: list[int] = []

    def __call__(
        self, device: Cpu, data: Sequence[torch.Tensor], kept: Sequence[torch.Tensor]
    ) -> Evictor:
        number = len(self.evictions)
        self.evictions.append(0)

        def evict() -> None:
            self.evictions[number] += 1

        return Evictor("made up", evict, lambda: None)


def test_both_sides_are_evicted_before_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted()
    monkeypatch.setattr(Cpu, "evictor", lambda *given: counted(*given))
    result = runner.run(silent, asked(linear, COLD_WEIGHTS), smoke())
    assert result.status == Status.OK, result.reason
    rounds = result.findings.rounds
    assert rounds is not None
    calls = rounds.calls_per_round * len(rounds.latency_rounds_s)
    assert len(counted.evictions) == 2
    assert min(counted.evictions) >= calls
    checks = result.findings.checks
    assert (checks.in_effect, checks.in_effect_note) == (False, cold_data.NOTHING)
    assert result.findings.clocks.pipelined_note == timers.COLD


def run(data: str) -> Result:
    return runner.run(silent, asked(wide, data), smoke())


def test_weights_beyond_the_second_level_cache_are_read_more_slowly() -> None:
    warm, cold = run(WARM), run(COLD_WEIGHTS)
    before_s, after_s = (min(r.findings.rounds.latency_rounds_s) for r in (warm, cold))
    found = cold.findings.cached_data
    assert cold.findings.checks.in_effect, cold.findings.checks.in_effect_note
    assert after_s > 1.1 * before_s
    assert found.evicted_bytes == found.baseline_evicted_bytes == 16 * MIB + 2048 * 4
    assert found.working_set_bytes == found.evicted_bytes + 2 * 2048 * 4
    assert warm.findings.cached_data.evicted_bytes is None

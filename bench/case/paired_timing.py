"""Times case and baseline (`bench.timing.comparison`) and adds the measurement to the findings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from modescope.bench.case.first_call import Contender
from modescope.bench.devices.devices import Hardware
from modescope.bench.records.cases import Plan
from modescope.bench.records.errors import Progress
from modescope.bench.records.results import Ended, Findings, flagged, joined
from modescope.bench.steps import compiler
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.timing import comparison, memory_layout, pace
from modescope.bench.timing.memory_layout import Redraw


def run(
    progress: Progress,
    candidate: Contender,
    baseline: Contender | None,
    device: Hardware,
    plan: Plan,
    findings: Findings,
) -> Findings:
    """`findings` with the paired rounds; raises Ended if torch compiled during timing."""
    compiler.wait_for_workers()
    seed = plan.seed + plan.replicate
    reasons = mode_effect.recompile_reasons()
    measured = comparison.measure(
        candidate.built.step,
        baseline.built.step if baseline else None,
        device,
        plan.budget,
        seed,
        redraw([each for each in (candidate, baseline) if each], device, seed),
        on_phase=progress,
        count_compilations=mode_effect.count_compilations,
    )
    compared, recompiles = measured.comparison, measured.comparison.compilations
    best_s = pace.best_s(compared.rounds.pace_rounds_s, Path(plan.results_dir) / pace.BEST)
    groups = (compared.rounds, measured.contention, measured.device_state)
    findings = replace(joined(findings, *groups), recompiles=recompiles, best_pace_s=best_s)
    if not compared.steady:
        findings = flagged(findings, "no_steady_state")
    if recompiles:
        why = reasons()
        findings = replace(findings, recompile_reasons=json.dumps(why))
        reason = f"torch compiled {recompiles} more time(s) while the case was timed"
        raise Ended("failed", f"{reason}: {why[0]}" if why else reason, findings)
    return findings


def redraw(contenders: Sequence[Contender], device: Hardware, seed: int) -> Redraw:
    """Moves tensors, and restarts training, so that all blocks do the same steps."""
    tensors = [tensor for each in contenders for tensor in each.built.tensors()]

    def restore() -> None:
        for each in contenders:
            each.built.state.restore()

    return memory_layout.anew(tensors, device, seed, restore)

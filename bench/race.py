"""Warm-up, paired rounds and clocks: all that is timed while the machine is watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import median

from bench import clocks, contention, evidence, pace, placement
from bench.devices import Hardware
from bench.entrant import Entrant
from bench.isolation import Progress
from bench.records import Ended, Findings, Plan, flagged
from bench.rounds import Rounds, paired, warm_up


def run(
    progress: Progress,
    candidate: Entrant,
    baseline: Entrant | None,
    device: Hardware,
    plan: Plan,
    findings: Findings,
) -> Findings:
    """All that is timed, and what the machine and the device were up to meanwhile.

    Raises Ended where torch compiled while the case was timed.
    """
    entrants = [entrant for entrant in (candidate, baseline) if entrant]
    redraw = _redraw(entrants, device, plan.seed + plan.replicate)
    counters, samples = contention.read(), [pace.sample(device)]
    findings = _time(progress, entrants, device, plan, redraw, findings)
    samples.append(pace.sample(device))
    progress("clocks")
    findings = _read_clocks(candidate, device, plan, redraw, findings)
    samples.append(pace.sample(device))
    seen = contention.between(counters, contention.read())
    return replace(findings, **asdict(seen), **asdict(pace.course(samples)))


def _redraw(entrants: Sequence[Entrant], device: Hardware, seed: int) -> placement.Redraw:
    """Memory placed anew; and training starts anew, so that all blocks do the same steps."""
    tensors = [tensor for each in entrants for tensor in each.built.tensors()]
    place = placement.anew(tensors, device, seed)

    def redraw() -> object:
        for each in entrants:
            each.built.restore()
        return place()

    return redraw


def _time(
    progress: Progress,
    entrants: Sequence[Entrant],
    device: Hardware,
    plan: Plan,
    redraw: placement.Redraw,
    findings: Findings,
) -> Findings:
    steps = [entrant.built.step for entrant in entrants]
    progress("warm-up")
    warmth = warm_up(steps, device, plan.budget)
    progress("timing")
    before = evidence.compiled_so_far()
    rounds = paired(
        steps[0],
        steps[1] if len(steps) > 1 else None,
        device,
        plan.budget,
        plan.seed + plan.replicate,
        warmth.per_call_s,
        redraw,
    )
    recompiles = evidence.compiled_so_far().since(before).compilations
    findings = _with_rounds(findings, rounds)
    findings = replace(findings, warmup_s=warmth.seconds, recompiles=recompiles)
    if not warmth.steady:
        findings = flagged(findings, "no_steady_state")
    if recompiles:
        reason = f"torch compiled {recompiles} more time(s) while the case was timed"
        raise Ended("failed", reason, findings)
    return findings


def _read_clocks(
    candidate: Entrant,
    device: Hardware,
    plan: Plan,
    redraw: placement.Redraw,
    findings: Findings,
) -> Findings:
    start = device.clock()
    assert findings.latency_rounds_s
    expected_s = median(findings.latency_rounds_s)
    seed = plan.seed + plan.replicate
    read = clocks.read(candidate.built.step, device, plan.budget, seed, expected_s, redraw)
    return replace(
        findings,
        host_rounds_s=read.host_s,
        pipelined_rounds_s=read.pipelined_s,
        device_rounds_s=read.device_s,
        device_note=read.device_note,
        device_calls=read.device_calls,
        device_calls_wanted=read.device_calls_wanted,
        clocks_s=device.clock() - start,
    )


def _with_rounds(findings: Findings, rounds: Rounds) -> Findings:
    return replace(
        findings,
        timed_s=rounds.seconds,
        calls_per_round=rounds.calls_per_round,
        latency_rounds_s=rounds.case_s,
        baseline_latency_rounds_s=rounds.baseline_s,
        case_ran_first=rounds.case_first,
        latency_calls_s=rounds.calls_s,
    )

"""Times a case in its process, and adds the times to its findings.

First come paired rounds of case and baseline (`bench.timing.comparison`), then all further timers,
called clocks (`bench.timing.clock_rounds`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from modescope.bench.case import dispatch
from modescope.bench.devices import devices
from modescope.bench.devices.devices import Hardware
from modescope.bench.evidence import compiler_counts
from modescope.bench.evidence.first_call import Contender
from modescope.bench.model import compiler
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.cases import Case
from modescope.bench.records.errors import Progress
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Ended, Findings, add_flag
from modescope.bench.stats import diagnostics
from modescope.bench.stats.estimates import MIN_ROUNDS
from modescope.bench.timing import alone, clock_rounds, comparison, memory_layout, pace
from modescope.bench.timing.memory_layout import Redraw
from modescope.bench.timing.rounds import Clock

ATTEMPTS = 2
"""How often the rounds are played where the host of a GPU is slow, which changes their ratio."""

CLOCK_NOTES = ("pipelined_note", "device_note", "dispatch_note")
"""The columns that explain why others are null."""


@dataclass(frozen=True)
class _Attempt:
    """A measurement, and the machine's best pace as it was known then."""

    measured: comparison.Measurement
    best_pace_s: float | None

    @property
    def _at_full_pace(self) -> list[bool]:
        paces_s = self.measured.comparison.rounds.pace_rounds_s
        return diagnostics.at_full_pace(paces_s, self.best_pace_s) or []

    @property
    def slow_rounds(self) -> int:
        return self._at_full_pace.count(False)

    @property
    def is_slow(self) -> bool:
        """Whether so few rounds were at full pace that they decide nothing (`bench.summary`)."""
        full, rounds = self._at_full_pace.count(True), len(self._at_full_pace)
        enough = full >= min(MIN_ROUNDS, rounds / 2)
        return not enough and not self.measured.comparison.compilations


def run(
    progress: Progress,
    candidate: Contender,
    baseline: Contender | None,
    device: Hardware,
    plan: Plan,
    findings: Findings,
) -> tuple[Findings, float]:
    """Warms up, times case and baseline in paired rounds, and adds the results to `findings`.

    Returns these, and the case's median latency in seconds. If the host of a GPU was too slow for
    an answer, it does so once more and takes the better rounds. Raises Ended if torch compiled
    during the rounds.
    """
    compiler.wait_for_workers()
    seed = plan.seed + plan.replicate
    reasons = compiler_counts.recompile_reasons()
    redrawn = redraw([contender for contender in (candidate, baseline) if contender], device, seed)
    best = Path(plan.results_dir) / pace.BEST
    attempts: list[_Attempt] = []
    while not attempts or (device.queues and len(attempts) < ATTEMPTS and attempts[-1].is_slow):
        measured = comparison.measure(
            candidate.built.timed(),
            baseline.built.timed() if baseline else None,
            device,
            plan.budget,
            seed,
            redrawn,
            on_phase=progress,
            count_compilations=compiler_counts.count_compilations,
        )
        paces_s = measured.comparison.rounds.pace_rounds_s
        attempts.append(_Attempt(measured, pace.best_s(paces_s, best)))
    best_s = attempts[-1].best_pace_s  # by which all are judged
    kept = min(attempts, key=lambda attempt: replace(attempt, best_pace_s=best_s).slow_rounds)
    compared, recompiles = kept.measured.comparison, kept.measured.comparison.compilations
    again = len(attempts) > 1 if device.queues else None
    findings = replace(
        findings,
        rounds=replace(compared.rounds, best_pace_s=best_s, rounds_again=again),
        contention=kept.measured.contention,
        device_state=kept.measured.device_state,
        checks=replace(findings.checks, recompiles=recompiles),
    )
    if not compared.steady:
        findings = add_flag(findings, "no_steady_state")
    if recompiles:
        why = reasons()
        compilations = replace(findings.compilations, recompile_reasons=json.dumps(why))
        findings = replace(findings, compilations=compilations)
        reason = f"torch compiled {recompiles} more time(s) while the case was timed"
        raise Ended(Status.FAILED, f"{reason}: {why[0]}" if why else reason, findings)
    return findings, median(compared.rounds.latency_rounds_s)


def redraw(contenders: Sequence[Contender], device: Hardware, seed: int) -> Redraw:
    """Returns a function to be called before every block of timed calls.

    It moves the contenders' tensors to random places in memory, and restarts their training, so
    that all blocks make the same training steps. `seed` is that of the places. It also looks why
    the device is slowed down, because such a reason is gone soon after the calls that caused it.
    """
    tensors = [tensor for contender in contenders for tensor in contender.built.tensors()]
    evictors = [e for contender in contenders if (e := contender.built.evictor)]

    def restore() -> None:
        for contender in contenders:
            contender.built.state.restore()
        if device.queues:  # a CPU counts slowdowns by itself
            device.slowdowns()

    move = memory_layout.make_redraw(tensors, device, seed, restore)

    def moved() -> object:
        placement = move()
        for evictor in evictors:
            evictor.locate()
        return placement

    return moved if evictors else move


def run_clocks(
    candidate: Contender,
    baseline: Contender | None,
    case: Case,
    device: Hardware,
    plan: Plan,
    latency_s: float,
    findings: Findings,
) -> Findings:
    """Adds host, pipelined, device and dispatch times to `findings`, with latencies beside them.

    Device and dispatch times are also those of the baseline, the others of the candidate alone.
    `latency_s` is the candidate's latency in the paired rounds. On a GPU a block of the candidate's
    calls without the baseline's comes last. Call it after the paired rounds, because a compiled
    mode compiles once more for an empty batch.
    """
    start = device.clock()
    contenders, call_s, rounds = [candidate], [latency_s], findings.rounds
    if baseline and rounds and rounds.baseline_latency_rounds_s is not None:
        contenders.append(baseline)
        call_s.append(median(rounds.baseline_latency_rounds_s))
    empty, note = _dispatch(contenders, case, device, plan)
    seed = plan.seed + plan.replicate
    budget = plan.budget
    if rounds and rounds.stopped_early:
        budget = replace(budget, clock_rounds=min(budget.clock_rounds, budget.pilot_rounds))
    redrawn, before = redraw(contenders, device, seed), devices.read_conditions(device)
    read = clock_rounds.read(
        [contender.built.timed() for contender in contenders],
        device,
        budget,
        seed,
        call_s,
        redrawn,
        empty,
    )
    after = devices.read_conditions(device)
    state = devices.device_state(before, after)
    if state.device_clock_hz is not None:  # before these rounds the device was idle
        state = replace(state, device_clock_hz=state.device_clock_hz[1:])
    timed = candidate.built.timed()
    by_itself = alone.read(timed, device, budget, latency_s, after.clock_hz, redrawn)
    seconds = device.clock() - start
    return replace(
        findings,
        clocks=replace(read, dispatch_note=note, clocks_s=seconds),
        device_state=devices.join(findings.device_state, state),
        alone=by_itself,
    )


def _dispatch(
    contenders: Sequence[Contender], case: Case, device: Hardware, plan: Plan
) -> tuple[list[Clock], str | None]:
    """Returns a list of at most one timer of dispatch, and a note on its times or None.

    It times the baseline beside the candidate. If only one of the two compiles, their times differ
    in meaning: compiled code for an empty batch has no launches, as the note says.
    """
    if reason := phase_of(case.options).no_dispatch:
        return [], reason
    calls = (
        dispatch.prepare(contender.built.subject, contender.facts.variant, case.model, device)
        for contender in contenders
    )
    step, note = next(calls)
    if step is None:
        return [], note
    steps = [step, *(further for further, _ in calls if further is not None)]
    return [dispatch.clock(steps, device, plan.budget)], note

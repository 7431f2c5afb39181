"""Examines a case after all timing, in passes that each add columns to its findings.

A pass may slow down or change what comes after it, but nothing that is timed. If a pass fails, its
columns are null and have a note, but the row stays.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from modescope.bench.devices.allocators import Allocator
from modescope.bench.devices.devices import Device, Hardware, Step, prepare_call
from modescope.bench.evidence.first_call import Contender
from modescope.bench.model import plain_call
from modescope.bench.model.subject import Built, StepPart
from modescope.bench.modes import backends, kernels, modes
from modescope.bench.modes.phases import phase_of
from modescope.bench.passes import ceilings, counting, gap_steps, memory
from modescope.bench.passes.profiler import capture, profile
from modescope.bench.records import files
from modescope.bench.records.cases import Case, Mode
from modescope.bench.records.columns.passes import CeilingRates, Profiled, Snapshot
from modescope.bench.records.columns.timing import StepParts
from modescope.bench.records.errors import Progress, one_line
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Budget, Plan
from modescope.bench.records.results import Findings, Result, add_note
from modescope.bench.timing import memory_layout
from modescope.bench.timing.rounds import (
    Clock,
    Side,
    medians,
    orders,
    play,
    quiet_gc,
    settling_calls,
)
from modescope.bench.timing.timers import Timing, calls_for, latency, reading_cost

SNAPSHOT_ENTRIES = (20_000, 2_000, 200)
"""How many of the last events of a call a snapshot keeps. They are tried in this order until the
file is small enough, which depends on the Python stacks of the events."""

SNAPSHOT_TOO_LARGE = (
    "no snapshot is kept: even its last {} events take more than the allowed {:g} MB; increase "
    "trace_max_mb or traces_max_mb"
)
SNAPSHOT_CUT = (
    "the snapshot holds at most the last {} events of the call: more do not fit into {:g} MB"
)

ONE_GRAPH = "the whole step is one captured graph, whose parts cannot be timed"

UNSEEN_KERNELS = (
    "kernels that C++ code calls, as in a package, do not show in a CPU's profile, so that its "
    "sums would lack them"
)

NO_ROOM = "no {} is kept: the study's files take traces_max_mb already; delete some, or increase it"

EXPLAINED = ("true", "fusion")
"""The values of `explain` with which a case's own process measures its steps."""

CEILINGS = "ceilings.json"
"""A file in results_dir: the highest rates of each device and dtype, measured when first needed."""


def keep_snapshot(step: Step, allocator: Allocator, path: Path, max_bytes: int) -> Snapshot:
    """Writes a memory snapshot of a call of the warm `step` to `path`, if it fits into `max_bytes`.

    A snapshot that is too large is tried again with fewer events (SNAPSHOT_ENTRIES), by another
    call each. Returns the columns: the file's name or None, and a note on what is missing. May
    raise OSError.
    """
    if not max_bytes:
        return Snapshot(None, NO_ROOM.format("snapshot"))
    with files.atomic_write(path) as partial:
        for entries in SNAPSHOT_ENTRIES:
            with allocator.record(partial, entries):
                step()
            if partial.stat().st_size <= max_bytes:
                whole = entries == SNAPSHOT_ENTRIES[0]
                note = None if whole else SNAPSHOT_CUT.format(entries, max_bytes / 1e6)
                return Snapshot(path.name, note)
        partial.unlink()
    return Snapshot(None, SNAPSHOT_TOO_LARGE.format(entries, max_bytes / 1e6))


def read_step_parts(
    built: Built, device: Device, budget: Budget, seed: int, latency_s: float
) -> StepParts:
    """Times the parts of training steps, and whole steps for comparison.

    There is one value per round. A round has a block of steps in parts and a block of whole steps,
    in random order. The host waits for each part and cannot run ahead, so on a GPU the parts
    together take longer than the step. Each block starts from the initial state, with tensors moved
    in memory. `latency_s` is the approximate time of a step. There are fewer rounds if they do not
    fit into `budget.timed_max_s`. All state is restored on return.
    """
    if built.step != built.live:
        return StepParts(parts_note=ONE_GRAPH)
    parts = built.state.parts()
    calls = calls_for(budget.block_s, latency_s, len(parts) * reading_cost(device.clock))
    rounds_s: dict[str, list[float]] = {}

    def in_parts(step: Step, device: Device, calls: int) -> Timing:
        samples = [_time_parts(step, parts, device) for _ in range(calls)]
        for name in samples[0]:
            rounds_s.setdefault(name, []).append(median(sample[name] for sample in samples))
        return Timing(tuple(sum(sample.values()) for sample in samples))

    with built.keep_state(), quiet_gc():
        redraw = memory_layout.make_redraw(built.tensors(), device, seed, built.state.restore)
        clocks = [
            Clock(name, (Side(built.step, timer, calls, settling_calls(latency_s)),), redraw)
            for name, timer in (("whole", latency), ("in_parts", in_parts))
        ]
        planned = orders(clocks, budget.clock_rounds, random.Random(seed))
        played = play(clocks, planned, device, device.clock() + budget.timed_max_s)
    return StepParts(
        forward_rounds_s=tuple(rounds_s["forward"]),
        backward_rounds_s=tuple(rounds_s["backward"]),
        optimizer_rounds_s=tuple(rounds_s["optimizer"]),
        scaler_rounds_s=tuple(rounds_s["scaler"]) if "scaler" in rounds_s else None,
        parts_latency_rounds_s=medians(played, 0, 0),
        parts_note=built.state.parts_note(),
    )


def _time_parts(step: Step, parts: tuple[StepPart, ...], device: Device) -> dict[str, float]:
    seconds: dict[str, float] = {}
    loss = None
    prepare_call(step)
    device.synchronize()
    for name, part in parts:
        start = device.clock()
        loss = part(loss)
        device.synchronize()
        seconds[name] = seconds.get(name, 0.0) + device.clock() - start
    return seconds


@dataclass(frozen=True)
class Scene:
    """What passes examine: the timed candidate and its case.

    The process holds nothing else of the case.
    """

    candidate: Contender
    case: Case
    device: Hardware
    plan: Plan
    latency_s: float  # median latency of the candidate
    run_id: str | None = None  # names the files that passes write; None: they write none

    def file(self, suffix: str) -> tuple[Path | None, int]:
        """Returns the path for a file of this run, and its largest size in bytes.

        (None, 0) means that no file is to be written: only the first replicate writes files. The
        size is 0 if the folder of traces is full.
        """
        plan = self.plan
        if self.run_id is None or plan.replicate > 0 or plan.trace_max_bytes == 0:
            return None, 0
        folder = plan.study_folder / "traces"
        # No file is removed to make room, because rows name them. Half-written ones have a dot.
        taken = sum(file.stat().st_size for file in folder.glob("[!.]*"))
        room = max(0, min(plan.trace_max_bytes, plan.traces_max_bytes - taken))
        return folder / f"{self.run_id}{suffix}", room


@dataclass(frozen=True)
class Pass:
    """One examination of a case after its timing."""

    name: str  # shown as the phase of a run
    note: str  # the column that explains why others are null
    applies: Callable[[Scene], bool]
    run: Callable[[Scene, Findings], Findings]


def run(progress: Progress, scene: Scene, findings: Findings) -> Findings:
    """Runs all passes that apply, and returns `findings` with their columns.

    The findings so far are sent before each pass, in case the process crashes.
    """
    passes = applicable(scene)
    for position, pass_ in enumerate(passes):
        progress(pass_.name, Result(Status.OK, None, findings, notes(passes[position:])))
        findings = guard(pass_.name, [pass_.note], partial(pass_.run, scene), findings)
    return findings


def guard(
    name: str, notes: Sequence[str], run: Callable[[Findings], Findings], findings: Findings
) -> Findings:
    """Returns `run(findings)`. If that fails, adds the reason to `findings` in columns `notes`."""
    try:
        return run(findings)
    except Exception as error:
        traceback.print_exc()
        return add_note(findings, notes, f"the {name} pass failed ({one_line(error, 160)})")


def applicable(scene: Scene) -> list[Pass]:
    """Returns the passes that apply to `scene`, in order."""
    return [pass_ for pass_ in PASSES if pass_.applies(scene)]


def notes(passes: Iterable[Pass]) -> tuple[str, ...]:
    """Returns the note columns of `passes`, each once. They explain why other columns are null."""
    return tuple(dict.fromkeys(pass_.note for pass_ in passes))


def _memory(scene: Scene, findings: Findings) -> Findings:
    variant, allocator = scene.case.variant, scene.device.allocator
    return replace(findings, memory=memory.read(scene.candidate.built, variant, allocator))


def _snapshot(scene: Scene, findings: Findings) -> Findings:
    path, room = scene.file(".pickle")
    if path is None:
        return findings
    built = scene.candidate.built
    with built.keep_state():
        snapshot = keep_snapshot(built.step, scene.device.allocator, path, room)
    return replace(findings, snapshot=snapshot)


def _work(scene: Scene, findings: Findings) -> Findings:
    plain = scene.case.variant.mode.eager_mode(grad="enabled")
    counted = _of_torch(scene) if kernels.is_asked(plain) else _rebuilt(scene, plain)
    return replace(findings, work=counting.count(counted))


def _of_torch(scene: Scene) -> Built:
    """Builds the model anew, in eager, by its own target: the work of other kernels is unknown."""
    case, device, phase = scene.case, scene.device, phase_of(scene.case.options)
    variant = replace(case.variant, mode=case.variant.mode.eager_mode("enabled").of_torch())
    drawn = plain_call.build_drawn(case, device)
    drawn_for = phase.prepare(drawn.subject, scene.plan.seed)
    subject = plain_call.find_changes(drawn_for, drawn.to_call, phase.trains).subject
    own = modes.prepare(subject, variant, phase)
    return modes.build(own, variant, False, device, phase)


def _steps(scene: Scene, findings: Findings) -> Findings:
    plan = scene.plan
    seed, built = plan.seed + plan.replicate, scene.candidate.built
    fusion = plan.explain == "fusion"
    read = gap_steps.read(built, scene.case, scene.device, plan.budget, seed, fusion)
    return replace(findings, gap_steps=read)


def _ceilings(scene: Scene, findings: Findings) -> Findings:
    file = Path(scene.plan.results_dir) / CEILINGS
    measures = scene.plan.budget.rank > 0  # a smoke budget times nothing that reaches a ceiling
    rates, note = ceilings.ceilings(scene.device, scene.case.variant.dtype, file, measures)
    moved_bytes = findings.work.least_bytes
    bandwidth = None if moved_bytes is None else rates.bytes_per_s(moved_bytes)
    findings = replace(findings, ceilings=CeilingRates(rates.flops_per_s, bandwidth))
    return add_note(findings, ["work_note"], note)


def _profile(scene: Scene, findings: Findings) -> Findings:
    path, room = scene.file(".json.gz")
    expected_s, clocks = scene.latency_s, findings.clocks
    kept, calls = path if room else None, settling_calls(expected_s)
    with scene.candidate.built.keep_state(), _kernels_recorded(scene) as called:
        step = scene.candidate.built.timed()
        captured = capture.capture(step, scene.device, kept, expected_s, room, calls)
    name = path.name if path else None
    columns = profile.columns(captured, scene.device.queues, name)
    unseen = findings.code.generated_kernels and called == set()
    if unseen or (backends.is_prebuilt(scene.case.variant.mode) and not scene.device.queues):
        trace = Profiled(trace=columns.trace, profile_note=columns.profile_note)
        return add_note(replace(findings, profile=trace), ["profile_note"], UNSEEN_KERNELS)
    findings = replace(findings, profile=columns)
    if path and not room:
        findings = add_note(findings, ["profile_note"], NO_ROOM.format("trace"))
    if findings.checks.graph_launches is None and captured.typical:
        checks = replace(findings.checks, graph_launches=captured.typical.graph_launches)
        findings = replace(findings, checks=checks)
    device_s = median(clocks.device_rounds_s) if clocks.device_rounds_s else None
    flags = profile.flags(captured, device_s)
    return replace(findings, flags=(*findings.flags, *flags))


def _kernels_recorded(scene: Scene) -> AbstractContextManager[set[str] | None]:
    """Shows fused kernels on a CPU to a profiler in the block; yields those called, or None."""
    if scene.device.queues or not backends.compiles_here(scene.case.variant.mode):
        return nullcontext()
    return capture.kernels_recorded()


def _rebuilt(scene: Scene, mode: Mode) -> Built:
    built, case = scene.candidate.built, scene.case
    variant, phase = replace(case.variant, mode=mode), phase_of(case.options)
    fullgraph, start = case.model.fullgraph, built.state.start
    return modes.build(built.subject, variant, fullgraph, scene.device, phase, start)


def _parts(scene: Scene, findings: Findings) -> Findings:
    seed, budget = scene.plan.seed + scene.plan.replicate, scene.plan.budget
    parts = read_step_parts(scene.candidate.built, scene.device, budget, seed, scene.latency_s)
    return replace(findings, step_parts=parts)


PASSES = (
    Pass("parts", "parts_note", lambda scene: bool(scene.candidate.built.state.parts()), _parts),
    Pass("memory", "memory_note", lambda scene: scene.plan.memory, _memory),
    Pass(
        "snapshot",
        "snapshot_note",
        lambda scene: scene.plan.memory and scene.device.allocator.snapshots,
        _snapshot,
    ),
    Pass("work", "work_note", lambda scene: scene.plan.profile, _work),
    Pass(
        "steps",
        "steps_note",
        lambda scene: scene.plan.explain in EXPLAINED and scene.case.variant.mode.compiles,
        _steps,
    ),
    Pass("ceilings", "work_note", lambda scene: scene.plan.profile, _ceilings),
    Pass("profile", "profile_note", lambda scene: scene.plan.profile, _profile),
)
"""All passes in order: timing before profiling, because CUPTI may slow what follows; memory before
anything is allocated for ceilings."""

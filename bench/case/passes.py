"""The table of passes, which examine a case after all timing: each adds its columns.

Passes may slow down or change what comes after them, but nothing that is timed. One that fails
leaves its columns null, with a note; the row stays.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from modescope.bench.case import memory, snapshot, step_parts
from modescope.bench.case.first_call import Contender
from modescope.bench.case.profiler import capture, contradictions, files, profile
from modescope.bench.case.roofline import ceiling_cache, counting
from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.records.cases import Case, Mode, Plan
from modescope.bench.records.errors import Progress, one_line
from modescope.bench.records.results import Findings, Result, joined, noted
from modescope.bench.steps import modes
from modescope.bench.steps.built_step import Built
from modescope.bench.steps.phases.table import phase_of
from modescope.bench.timing.rounds import settling

NO_ROOM = (
    "no trace is kept: the study's files take traces_max_mb already; delete some, or increase it"
)

CEILINGS = "ceilings.json"
"""In results_dir: the highest rates of each device and dtype, measured when first needed."""


@dataclass(frozen=True)
class Scene:
    """The input of passes. The process holds nothing else of the case."""

    candidate: Contender
    case: Case
    device: Hardware
    plan: Plan
    run_id: str | None  # names the files that passes write; None: they write none

    def file(self, suffix: str) -> tuple[Path | None, int]:
        """A file's path and its largest size; None: no file, as in all replicates but the first."""
        plan = self.plan
        if self.run_id is None or plan.replicate > 0 or plan.trace_max_bytes == 0:
            return None, 0
        folder = plan.study_folder / "traces"
        room = files.room_bytes(folder, plan.trace_max_bytes, plan.traces_max_bytes)
        return folder / f"{self.run_id}{suffix}", room


@dataclass(frozen=True)
class Pass:
    """One way to examine a case."""

    name: str  # shown as the phase of a run
    note: str  # the column that explains why others are null
    applies: Callable[[Scene], bool]
    run: Callable[[Scene, Findings], Findings]


def run(progress: Progress, scene: Scene, findings: Findings) -> Findings:
    """Runs all passes that apply. Partial findings are sent before each, in case it crashes."""
    applying = [each for each in PASSES if each.applies(scene)]
    for position, each in enumerate(applying):
        progress(each.name, Result("ok", None, findings, _notes(applying[position:])))
        findings = guarded(each.name, [each.note], partial(each.run, scene), findings)
    return findings


def guarded(
    name: str, notes: Sequence[str], run: Callable[[Findings], Findings], findings: Findings
) -> Findings:
    """`run(findings)`; where that fails, `findings` with the reason in the columns `notes`."""
    try:
        return run(findings)
    except Exception as error:
        traceback.print_exc()
        return noted(findings, notes, f"the {name} pass failed ({one_line(error, 160)})")


def notes(scene: Scene) -> tuple[str, ...]:
    """The columns that explain why those of the passes that apply are null."""
    return _notes(each for each in PASSES if each.applies(scene))


def _notes(of: Iterable[Pass]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.note for each in of))


def _memory(scene: Scene, findings: Findings) -> Findings:
    variant, allocator = scene.case.variant, scene.device.allocator
    return joined(findings, memory.read(scene.candidate.built, variant, allocator))


def _snapshot(scene: Scene, findings: Findings) -> Findings:
    path, room = scene.file(".pickle")
    if path is None:
        return findings
    built = scene.candidate.built
    with built.kept():
        return joined(findings, snapshot.keep(built.step, scene.device.allocator, path, room))


def _work(scene: Scene, findings: Findings) -> Findings:
    """Counted on plain eager that records gradients, whatever the mode."""
    plain = scene.case.variant.mode.in_eager(grad="enabled")
    return joined(findings, counting.count(_rebuilt(scene, plain)))


def _ceilings(scene: Scene, findings: Findings) -> Findings:
    file = Path(scene.plan.results_dir) / CEILINGS
    measured = ceiling_cache.ceilings(scene.device, scene.case.variant.dtype, file)
    rates, moved_bytes = measured.ceilings, findings.least_bytes
    findings = replace(
        findings,
        ceiling_flops_per_s=rates.flops_per_s,
        ceiling_bytes_per_s=None if moved_bytes is None else rates.bytes_per_s(moved_bytes),
    )
    return noted(findings, ["work_note"], measured.note)


def _profile(scene: Scene, findings: Findings) -> Findings:
    path, room = scene.file(".json.gz")
    assert findings.latency_rounds_s
    expected_s = median(findings.latency_rounds_s)
    with scene.candidate.built.kept():
        kept, calls = path if room else None, settling(expected_s)
        step = _visible(scene)
        captured = capture.capture(step, scene.device, kept, expected_s, room, calls)
    name = path.name if path else None
    findings = joined(findings, profile.columns(captured, scene.device.queues, name))
    if path and not room:
        findings = noted(findings, ["profile_note"], NO_ROOM)
    if findings.graph_launches is None and captured.typical:
        findings = replace(findings, graph_launches=captured.typical.graph_launches)
    device_s = median(findings.device_rounds_s) if findings.device_rounds_s else None
    flags = contradictions.flags(captured, device_s)
    return replace(findings, flags=(*findings.flags, *flags))


def _visible(scene: Scene) -> Step:
    """The timed step, or on a CPU the same compiled once more to make fused kernels visible."""
    mode = scene.case.variant.mode
    if scene.device.queues or not mode.compiles:
        return scene.candidate.built.step
    return capture.with_kernel_events(lambda: _rebuilt(scene, mode).step)


def _rebuilt(scene: Scene, mode: Mode) -> Built:
    """The candidate's weights and inputs in another mode, from the same initial state."""
    built, case = scene.candidate.built, scene.case
    variant, phase = replace(case.variant, mode=mode), phase_of(case.options)
    fullgraph, start = case.model.fullgraph, built.state.start
    return modes.build(built.subject, variant, fullgraph, scene.device, phase, start)


def _parts(scene: Scene, findings: Findings) -> Findings:
    assert findings.latency_rounds_s
    expected_s = median(findings.latency_rounds_s)
    seed, budget = scene.plan.seed + scene.plan.replicate, scene.plan.budget
    parts = step_parts.read(scene.candidate.built, scene.device, budget, seed, expected_s)
    return joined(findings, parts)


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
    Pass("ceilings", "work_note", lambda scene: scene.plan.profile, _ceilings),
    Pass("profile", "profile_note", lambda scene: scene.plan.profile, _profile),
)
"""In this order: timing before profiling, because CUPTI may slow what follows; memory before
anything is compiled again or allocated for ceilings."""

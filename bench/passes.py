"""What is looked at once all timing is done: one entry per pass, each adding its columns.

Passes may slow down or spoil what comes after them, never what was timed. One that fails costs its
columns and leaves a note, not the row.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from bench import empty, modes
from bench.devices import Hardware, Step
from bench.entrant import Entrant
from bench.isolation import Progress, one_line
from bench.memory import reading, snapshot
from bench.profiling import files
from bench.profiling.capture import capture, contradictions, with_kernel_events
from bench.profiling.columns import columns
from bench.records import Case, Findings, Mode, Plan, Result, noted
from bench.roofline import counting, remembered
from bench.rounds import settling
from bench.training import parts

NO_ROOM = (
    "no trace is kept: those of the study take traces_max_mb already; delete some, or allow more"
)

CEILINGS = "ceilings.json"
"""In the folder of results: rates of each device and dtype, measured when first asked for."""


@dataclass(frozen=True)
class Scene:
    """What passes look at. Nothing else of the case is left in the process."""

    candidate: Entrant
    case: Case
    device: Hardware
    plan: Plan
    run_id: str | None  # names the files that passes leave; None: they leave none

    def file(self, suffix: str) -> tuple[Path | None, int]:
        """Where a file may go, and its largest size; None where none is to be kept.

        Of a case with several processes the first one keeps files.
        """
        plan = self.plan
        if self.run_id is None or plan.replicate > 0 or plan.trace_max_bytes == 0:
            return None, 0
        folder = plan.study_folder / "traces"
        room = files.room_bytes(folder, plan.trace_max_bytes, plan.traces_max_bytes)
        return folder / f"{self.run_id}{suffix}", room


@dataclass(frozen=True)
class Pass:
    """One way to look at a case."""

    name: str  # shown as the phase of a run
    note: str  # the column that says why others are null
    asked: Callable[[Scene], bool]
    look: Callable[[Scene, Findings], Findings]


def run(progress: Progress, scene: Scene, findings: Findings) -> Findings:
    """Every pass that is asked for. What is known is reported before each, lest it be lost."""
    asked = [each for each in PASSES if each.asked(scene)]
    for position, each in enumerate(asked):
        lost = tuple(dict.fromkeys(later.note for later in asked[position:]))
        progress(each.name, Result("ok", None, findings, lost))
        try:
            findings = each.look(scene, findings)
        except Exception as error:
            traceback.print_exc()
            reason = f"the {each.name} pass failed ({one_line(error, 160)})"
            findings = noted(findings, [each.note], reason)
    return findings


def _dispatch(scene: Scene, findings: Findings) -> Findings:
    case, device = scene.case, scene.device
    if case.training:
        return replace(findings, dispatch_note=empty.TRAINS)
    subject = scene.candidate.built.subject
    start = device.clock()
    timing = empty.dispatch(subject, case.variant, case.model, device, scene.plan.budget)
    assert findings.clocks_s is not None
    return replace(
        findings,
        dispatch_rounds_s=timing.samples_s or None,
        dispatch_note=timing.reason,
        clocks_s=findings.clocks_s + device.clock() - start,
    )


def _memory(scene: Scene, findings: Findings) -> Findings:
    built, allocator = scene.candidate.built, scene.device.allocator
    found = reading.read(built, scene.case.variant, allocator)
    return replace(findings, **asdict(found))


def _snapshot(scene: Scene, findings: Findings) -> Findings:
    path, room = scene.file(".pickle")
    if path is None:
        return findings
    built = scene.candidate.built
    with built.kept():
        kept = snapshot.keep(built.step, scene.device.allocator, path, room)
    return replace(findings, **asdict(kept))


def _work(scene: Scene, findings: Findings) -> Findings:
    """Counted on plain eager that records gradients, whatever the mode."""
    plain = replace(scene.case.variant.mode, grad="enabled", compile="none", graph=False)
    work = counting.count(_again(scene, plain))
    return replace(
        findings,
        flops=work.flops,
        least_bytes=work.least_bytes,
        eager_bytes=work.eager_bytes,
        work_note=work.note,
    )


def _ceilings(scene: Scene, findings: Findings) -> Findings:
    file = Path(scene.plan.results_dir) / CEILINGS
    found = remembered.ceilings(scene.device, scene.case.variant.dtype, file)
    rates, known = found.ceilings, findings.least_bytes
    findings = replace(
        findings,
        ceiling_flops_per_s=rates.flops_per_s,
        ceiling_bytes_per_s=None if known is None else rates.bytes_per_s(known),
    )
    return noted(findings, ["work_note"], found.note)


def _profile(scene: Scene, findings: Findings) -> Findings:
    path, room = scene.file(".json.gz")
    assert findings.latency_rounds_s
    expected_s = median(findings.latency_rounds_s)
    with scene.candidate.built.kept():
        step = _visible(scene)
        kept = path if room else None
        seen = capture(step, scene.device, kept, expected_s, room, settling(expected_s))
    found = columns(seen, scene.device.queues, path.name if path else None)
    findings = replace(findings, **asdict(found))
    if path and not room:
        findings = noted(findings, ["profile_note"], NO_ROOM)
    if findings.graph_launches is None and seen.typical:
        findings = replace(findings, graph_launches=seen.typical.graph_launches)
    device_s = median(findings.device_rounds_s) if findings.device_rounds_s else None
    return replace(findings, flags=(*findings.flags, *contradictions(seen, device_s)))


def _visible(scene: Scene) -> Step:
    """What was timed, or on a CPU the same compiled once more so that fused kernels show."""
    built, case = scene.candidate.built, scene.case
    if scene.device.queues or case.variant.mode.compile == "none":
        return built.step

    return with_kernel_events(lambda: _again(scene, case.variant.mode).step)


def _again(scene: Scene, mode: Mode) -> modes.Built:
    """The candidate's weights and inputs in another mode, from the same state of training."""
    built, case = scene.candidate.built, scene.case
    asked = replace(case.variant, mode=mode)
    start = built.trainer.start if built.trainer else None
    fullgraph = case.model.fullgraph
    return modes.build(built.subject, asked, fullgraph, scene.device, case.training, start)


def _can_record(scene: Scene) -> bool:
    return scene.plan.memory and scene.device.allocator.snapshots


def _parts(scene: Scene, findings: Findings) -> Findings:
    assert findings.latency_rounds_s
    expected_s = median(findings.latency_rounds_s)
    seed = scene.plan.seed + scene.plan.replicate
    found = parts.read(scene.candidate.built, scene.device, scene.plan.budget, seed, expected_s)
    return replace(findings, **asdict(found))


PASSES = (
    Pass("dispatch", "dispatch_note", lambda scene: True, _dispatch),
    Pass("parts", "parts_note", lambda scene: scene.case.training is not None, _parts),
    Pass("memory", "memory_note", lambda scene: scene.plan.memory, _memory),
    Pass("snapshot", "snapshot_note", _can_record, _snapshot),
    Pass("work", "work_note", lambda scene: scene.plan.profile, _work),
    Pass("ceilings", "work_note", lambda scene: scene.plan.profile, _ceilings),
    Pass("profile", "profile_note", lambda scene: scene.plan.profile, _profile),
)
"""In this order: what times comes before what profiles, as CUPTI may slow what follows, and memory
comes while nothing was compiled again and nothing was allocated for ceilings."""

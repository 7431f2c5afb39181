"""Passes after timing: counts by hand, memory in a fresh process, failures that keep the row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

from modescope.bench.case import memory, passes, runner
from modescope.bench.case.profiler import capture, facts, traces
from modescope.bench.case.profiler.capture import KEPT_STEPS
from modescope.bench.case.profiler.profile import Profile, columns, typical
from modescope.bench.case.profiler.profiled_calls import ProfiledCalls
from modescope.bench.case.profiler.traces import STEP
from modescope.bench.case.roofline import ceilings, counting
from modescope.bench.devices.devices import Cpu
from modescope.bench.records.cases import Case, Model, Plan, Variant
from modescope.bench.records.columns import (
    CeilingRates,
    Clocks,
    Compilations,
    GeneratedCode,
    Memory,
    Profiled,
    Setup,
    Snapshot,
    WorkCounts,
)
from modescope.bench.records.results import Findings
from modescope.bench.stats import diagnostics
from modescope.bench.stats.roofline import Ceilings
from modescope.bench.timing import clock_rounds
from tests.helpers import probe_models
from tests.helpers.child_runs import findings_in_child
from tests.helpers.probe_models import case, model, silent, smoke, variant

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

RUN_ID = "20260301T120000.000001-abc123"
EAGER = variant(grad="inference_mode")
COMPILE = variant(grad="inference_mode", compile="default")
LENGTHS = (4, 16, 64)
BATCH, WIDTH = 4, 16

FLOAT = 4
RATES = Ceilings(2e11, ((2**10, 3e10), (2**20, 1e10)))

NULL_ON_A_CPU = {
    *("launches", "copies", "fills", "launch_delay_s", "reserved_bytes", "graph_pool_bytes"),
    *("graph_pool_live_bytes", "snapshot", "gradient_bytes", "optimizer_state_bytes"),
    *("profile_note", "memory_note", "snapshot_note", "work_note"),
}
COLUMNS: dict[type, set[str]] = {
    part: {column.name for column in fields(part)}
    for part in (
        *(GeneratedCode, Profiled, Setup, Memory, Snapshot, WorkCounts, CeilingRates),
        *(Clocks, Compilations),
    )
}


@pytest.fixture(autouse=True)
def _steady_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ceilings, "measure", lambda *device_and_dtype: RATES)
    monkeypatch.setattr(diagnostics, "contended", lambda *seen: False)
    yield
    torch.compiler.reset()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return replace(smoke(), profile=True, memory=True, results_dir=str(tmp_path))


def chain(ops: int, asked: Variant) -> Case:
    """A chain of pointwise operators; without a batch dimension, so that no empty one compiles."""
    shape = f'{{"batch":{BATCH},"ops":{ops},"width":{WIDTH}}}'
    asked_of = Model("pointwise", "modescope.models.pointwise:build", batch_dim=None)
    return replace(case(asked_of, asked, baseline=None), shape_json=shape)


def nulls(findings: Findings, *parts: type) -> set[str]:
    names = {name for part in parts for name in COLUMNS[part]}
    return {name for name in names if getattr(findings, name) is None}


def trace_files(plan: Plan) -> list[Path]:
    return sorted((plan.study_folder / "traces").glob("*"))


# Profiler


@pytest.mark.parametrize("ops", LENGTHS)
def test_a_chain_is_as_many_kernels_in_eager(ops: int, plan: Plan) -> None:
    found = runner.run(silent, chain(ops, EAGER), plan).findings
    assert (found.kernels, found.ops_dispatched) == (ops, ops)
    assert found.ops_leaf >= ops  # some call others
    assert nulls(found, Profiled) - NULL_ON_A_CPU == {"trace", "guards_s", "compiled_wrapper_s"}
    assert nulls(found, Compilations) == COLUMNS[Compilations]
    assert nulls(found, GeneratedCode) == COLUMNS[GeneratedCode]
    assert found.device_busy_s <= found.profiled_span_s
    assert found.profiler_overhead > 0
    heaviest = json.loads(found.heaviest_kernels)
    assert sum(each["count"] for each in heaviest) == ops
    seconds = [each["seconds"] for each in heaviest]
    assert seconds == sorted(seconds, reverse=True)
    assert set(found.flags) <= {"no_steady_state"}


@pytest.mark.full
@pytest.mark.parametrize("ops", LENGTHS)
def test_a_compiled_chain_is_one_kernel(ops: int, plan: Plan) -> None:
    found = runner.run(silent, chain(ops, COMPILE), plan).findings
    assert (found.kernels, found.ops_dispatched) == (1, 0)
    assert (found.generated_kernels, found.extern_calls) == (1, 0)
    assert found.bytes_accessed == FLOAT * (2 * BATCH * WIDTH + WIDTH)
    assert found.compiler_cache_hits + found.compiler_cache_misses == 1
    assert found.fallback_kernels == found.recompile_reasons == "[]"
    assert 0 < sum(json.loads(found.compile_phases_s).values()) <= found.first_call_s
    assert 0 < found.guards_s + found.compiled_wrapper_s < found.profiled_span_s
    (kernel,) = json.loads(found.heaviest_kernels)
    assert "cpp_fused" in kernel["name"]
    assert kernel["count"] == 1


@pytest.mark.full
def test_a_compiled_call_is_divided_where_no_batch_can_be_empty(plan: Plan) -> None:
    """The profiler has the lookup, the Python around the graph, and the call of the graph."""
    asked = case(model(probe_models.below_the_largest), COMPILE, baseline=None)
    found = runner.run(silent, asked, plan, RUN_ID).findings
    assert found.dispatch_rounds_s is None
    assert "cannot take an empty batch" in found.dispatch_note
    assert found.guards_s > 0
    assert found.compiled_wrapper_s > 0
    recorded = traces.load(trace_files(plan)[0])["traceEvents"]
    (call,) = [
        each for each in recorded
        if each["name"] == STEP and each["dur"] == pytest.approx(found.profiled_span_s * 1e6)
    ]  # fmt: skip
    (graph,) = [
        each for each in recorded
        if each["name"].startswith("## Call CompiledFxGraph")
        and call["ts"] < each["ts"] < call["ts"] + call["dur"]
    ]  # fmt: skip
    rest_s = found.profiled_span_s - found.guards_s - found.compiled_wrapper_s
    assert found.kernels_s < graph["dur"] / 1e6 <= rest_s


def test_a_trace_loads_back_with_its_steps(plan: Plan) -> None:
    found = runner.run(silent, chain(4, EAGER), plan, RUN_ID).findings
    assert found.trace == f"{RUN_ID}.json.gz"
    (path,) = trace_files(plan)
    assert path.name == found.trace
    trace = traces.load(path)
    ranges = [event for event in trace["traceEvents"] if event["name"] == STEP]
    assert len(ranges) == KEPT_STEPS
    read = facts.read(path)
    assert [step.kernels for step in read.steps] == [4] * KEPT_STEPS
    assert found.profiled_span_s in [step.span_s for step in read.steps]


@pytest.mark.parametrize(
    "changes", [{"replicate": 1}, {"trace_max_bytes": 0}, {"profile": False}], ids=str
)
def test_no_trace_is_kept_without_profiling_or_room(changes: dict[str, Any], plan: Plan) -> None:
    found = runner.run(silent, chain(4, EAGER), replace(plan, **changes), RUN_ID).findings
    assert (found.trace, found.profile_note) == (None, None)
    assert trace_files(plan) == []
    assert (found.kernels is None) == (changes == {"profile": False})


def test_traces_of_a_study_stay_within_their_limit(plan: Plan) -> None:
    """The oldest are kept, as rows refer to them."""
    runner.run(silent, chain(4, EAGER), plan, RUN_ID)
    (first,) = trace_files(plan)
    full = replace(plan, traces_max_bytes=first.stat().st_size)
    found = runner.run(silent, chain(4, EAGER), full, "20260302").findings
    assert trace_files(plan) == [first]
    assert (found.trace, found.profile_note) == (None, passes.NO_ROOM)
    assert found.kernels == 4


def test_a_trace_keeps_fewer_steps_where_room_is_short(plan: Plan) -> None:
    runner.run(silent, chain(64, EAGER), plan, RUN_ID)
    (first,) = trace_files(plan)
    first_bytes = first.stat().st_size
    tight = replace(plan, traces_max_bytes=first_bytes * 8 // 5)
    found = runner.run(silent, chain(64, EAGER), tight, "20260302").findings
    assert found.trace == "20260302.json.gz"
    assert sum(path.stat().st_size for path in trace_files(plan)) <= tight.traces_max_bytes
    assert f"of {KEPT_STEPS} steps fit into a trace file" in found.profile_note


def test_room_counts_complete_files_only(tmp_path: Path) -> None:
    """60 bytes of 100 are used; a deleted file and an unfinished one do not count."""
    (tmp_path / "one.json.gz").write_bytes(b"x" * 60)
    (tmp_path / ".two.json.gz.host-1.partial").write_bytes(b"x" * 30)
    (tmp_path / "gone.pickle").symlink_to(tmp_path / "nowhere")
    room = [traces.room_bytes(tmp_path, allowed, 100) for allowed in (10, 50)]
    assert room == [10, 40]
    assert traces.room_bytes(tmp_path / "not yet there", 10, 100) == 10


HEAVY = facts.Heavy("a", 2, 0.75), facts.Heavy("b", 1, 0.25)


def test_the_heaviest_kernels_are_of_the_typical_step() -> None:
    """The longest step's kernels took five times as long as all of the typical one's."""
    made = _profile_of(HEAVY)
    longest = replace(
        made.trace.steps[0], span_s=9.0, heaviest_kernels=(facts.Heavy("a", 20, 5.0),)
    )
    steps = (longest, *made.trace.steps)
    taken = ProfiledCalls((2.0,) * 3, (2e-5, 3e-5, 4e-5), (2.0, 2.0, 2.5))
    place = typical(steps, taken)
    profile = replace(made, trace=replace(made.trace, steps=steps), turns=taken, place=place)
    found = columns(profile, launches=False)
    assert json.loads(found.heaviest_kernels) == [
        {"name": "a", "count": 2, "seconds": 0.75},
        {"name": "b", "count": 1, "seconds": 0.25},
    ]
    assert found.kernels_s == 1.0
    assert found.profiled_kernels_rounds_s == (1.0, 1.0, 1.0)
    assert found.profiled_latency_rounds_s == (2.0, 2.0, 2.5)
    assert found.profiled_pace_s == 3e-5, "of the typical step, which is the second"


def _profile_of(heaviest: tuple[facts.Heavy, ...] = ()) -> Profile:
    step = facts.StepFacts(
        *(2.0, 0.5, 0.25, 1, 1, 1.0, 1, 1.0, 3, 1, 2, 1, 1.0, (5e-6, 1e-6, 3e-6)), heaviest, ()
    )
    taken = ProfiledCalls((2.0, 2.0), (2e-5, 3e-5), (2.0, 2.0))
    return Profile(facts.TraceFacts((step, step), Counter()), taken, 0, 1.5, None, ("one", "two"))


def test_launches_are_counted_on_a_gpu_only() -> None:
    of_gpu, of_cpu = (columns(_profile_of(), launches=each) for each in (True, False))
    assert (of_gpu.launches, of_gpu.copies, of_gpu.fills) == (3, 2, 1)
    assert of_gpu.launch_delay_s == 3e-6
    assert (of_cpu.launches, of_cpu.copies, of_cpu.fills, of_cpu.launch_delay_s) == (None,) * 4
    assert of_gpu.profile_note == "one; two"
    assert of_gpu.trace is None


def test_a_trace_without_steps_leaves_nulls() -> None:
    made = _profile_of()
    blank = replace(made, trace=replace(made.trace, steps=()), place=None)
    found = columns(blank, launches=True)
    assert found == Profiled(profiler_overhead=1.5, profile_note="one; two")


# Memory, in a process of its own as in a sweep


@lru_cache
def measured(build: Callable[..., probe_models.Built], grad: str, **axes: Any) -> Findings:
    """With a baseline, which must be freed before memory is read."""
    asked = case(model(build), variant(grad=grad, **axes))
    return findings_in_child(asked, replace(smoke(), memory=True))


ROWS, HIDDEN = probe_models.LAYERS_ROWS, probe_models.LAYERS_HIDDEN
HIDDEN_BYTES = ROWS * HIDDEN * FLOAT
OUT_BYTES = ROWS * probe_models.WIDTH * FLOAT
INPUT_BYTES = ROWS * probe_models.WIDTH * FLOAT
WEIGHT_BYTES = FLOAT * (2 * probe_models.WIDTH * HIDDEN + HIDDEN + probe_models.WIDTH)


def test_activations_of_two_layers() -> None:
    """GELU and the second product save their inputs; that of the first is the model's input."""
    found = measured(probe_models.two_layers, "enabled")
    assert found.saved_activation_bytes == 2 * HIDDEN_BYTES
    assert found.step_peak_bytes == 2 * HIDDEN_BYTES + OUT_BYTES
    assert found.allocations_per_call == 3
    assert nulls(found, Memory, Setup) <= NULL_ON_A_CPU
    assert nulls(found, Profiled) == COLUMNS[Profiled]


@pytest.mark.parametrize("grad", ["no_grad", "inference_mode"])
def test_without_gradients_no_activation_is_saved(grad: str) -> None:
    found = measured(probe_models.two_layers, grad)
    assert found.saved_activation_bytes == 0
    assert found.allocated_bytes_per_call == 2 * HIDDEN_BYTES + OUT_BYTES
    assert found.step_left_bytes == 0


@pytest.mark.parametrize("grad", ["enabled", "inference_mode"])
def test_only_the_timed_variant_is_in_memory(grad: str) -> None:
    """Neither the reference in float64 nor the baseline nor the original is left."""
    found = measured(probe_models.two_layers, grad)
    assert (found.weights_bytes, found.input_bytes) == (WEIGHT_BYTES, INPUT_BYTES)
    assert found.resident_bytes == WEIGHT_BYTES + INPUT_BYTES


@pytest.mark.parametrize("grad", ["enabled", "inference_mode"])
def test_values_kept_of_changed_arguments_are_not_in_memory(grad: str) -> None:
    found = measured(probe_models.consumes, grad)
    assert found.changed_arguments
    assert found.weights_bytes
    assert found.input_bytes
    assert found.resident_bytes == found.weights_bytes + found.input_bytes


def test_a_second_copy_of_the_model_shows_in_resident_bytes() -> None:
    found = measured(probe_models.hoarded, "enabled")
    assert found.resident_bytes == found.weights_bytes + found.input_bytes + WEIGHT_BYTES


# Work and ceilings


@pytest.mark.parametrize("grad", ["enabled", "inference_mode"])
def test_work_does_not_depend_on_the_mode(grad: str, plan: Plan) -> None:
    found = runner.run(
        silent, case(model(probe_models.two_layers), variant(grad=grad)), plan
    ).findings
    assert found.flops == 2 * (2 * ROWS * probe_models.WIDTH * HIDDEN)
    assert found.least_bytes == WEIGHT_BYTES + INPUT_BYTES + OUT_BYTES
    assert found.eager_bytes == found.least_bytes + 2 * 2 * HIDDEN_BYTES  # written, then read
    assert found.ceiling_flops_per_s == 2e11
    assert found.ceiling_bytes_per_s == RATES.bytes_per_s(found.least_bytes) == 3e10
    assert nulls(found, WorkCounts, CeilingRates) == {"work_note", "subnormal"}


def test_ceilings_are_measured_once_for_all_studies(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def measure(device: Cpu, dtype: str) -> Ceilings:
        measured.append(dtype)
        return RATES

    monkeypatch.setattr(ceilings, "measure", measure)
    for study, dtype in (("one", "fp32"), ("two", "fp32"), ("two", "bf16")):
        asked = case(model(probe_models.scaled), variant(dtype), baseline=None)
        runner.run(silent, asked, replace(plan, study=study))
    assert measured == ["fp32", "bf16"]
    assert [path.name for path in Path(plan.results_dir).iterdir()] == [passes.CEILINGS]


# Failures


def raising(*arguments: Any, **options: Any) -> None:
    raise RuntimeError("this is\nnot supported")


FAILURES = {
    "clocks": (clock_rounds, "read", "dispatch_note", COLUMNS[Clocks]),
    "memory": (memory, "read", "memory_note", COLUMNS[Memory]),
    "work": (
        *(counting, "count", "work_note"),
        {"flops", "least_bytes", "eager_bytes", "ceiling_bytes_per_s"},
    ),
    "profile": (capture, "capture", "profile_note", COLUMNS[Profiled]),
    "ceilings": (
        *(ceilings, "ceilings", "work_note"),
        {"ceiling_flops_per_s", "ceiling_bytes_per_s"},
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_pass_leaves_only_its_columns_null(
    name: str, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = case(model(probe_models.linear), EAGER)
    whole = asdict(runner.run(silent, asked, plan).findings)
    where, function, note, its_own = FAILURES[name]
    monkeypatch.setattr(where, function, raising)
    result = runner.run(silent, asked, plan)
    assert (result.status, result.reason) == ("ok", None)
    found = asdict(result.findings)
    reason = f"the {name} pass failed (RuntimeError: this is not supported)"
    assert found[note] == reason
    lost = {key for key in whole if found[key] is None and whole[key] is not None}
    notes = {key for key in its_own if key.endswith("_note")}
    assert lost == (its_own - notes) & {key for key in whole if whole[key] is not None}


def test_partial_results_are_sent_before_each_pass(plan: Plan) -> None:
    kept: dict[str, Any] = {}

    def report(phase: str, keep: object = None) -> None:
        kept[phase] = keep

    runner.run(report, case(model(probe_models.linear), EAGER), plan)
    others = {"snapshot", "parts"}  # of a GPU, of training
    names = [each.name for each in passes.PASSES if each.name not in others]
    assert [phase for phase in kept if phase in names] == names
    assert all(kept[name].status == "ok" for name in names)
    of_passes = ("memory_note", "work_note", "profile_note")
    of_clocks = ("pipelined_note", "device_note", "dispatch_note")
    assert kept["clocks"].lost == of_clocks + of_passes
    assert kept["memory"].lost == of_passes
    assert kept["profile"].lost == ("profile_note",)
    assert kept["clocks"].findings.latency_rounds_s is not None
    assert kept["clocks"].findings.dispatch_rounds_s is None
    assert kept["memory"].findings.dispatch_rounds_s is not None
    assert kept["ceilings"].findings.flops is not None
    assert kept["profile"].findings.ceiling_flops_per_s is not None, "measured before a profiler is"
    assert kept["profile"].findings.kernels is None


def test_passes_restore_the_state_of_a_model(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    scenes: list[passes.Scene] = []
    run = passes.run

    def watched(progress: Any, scene: passes.Scene, findings: Findings) -> Findings:
        scenes.append(scene)
        module = scene.candidate.built.subject.module
        before = float(module.get_buffer("calls"))
        found = run(progress, scene, findings)
        assert float(module.get_buffer("calls")) == before
        return found

    monkeypatch.setattr(passes, "run", watched)
    assert runner.run(silent, case(model(probe_models.counts), EAGER), plan).status == "ok"
    assert len(scenes) == 1

"""Passes after timing: counts by hand, memory in a fresh process, failures that keep the row."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from modescope.bench.case import runner
from modescope.bench.devices.allocators import CpuAllocator
from modescope.bench.model.subject import Built
from modescope.bench.modes.trainer import FUSED_UNSCALES, Start, Trainer
from modescope.bench.passes import ceilings, counting, memory, passes
from modescope.bench.passes.passes import NO_ROOM, SNAPSHOT_CUT, SNAPSHOT_TOO_LARGE
from modescope.bench.passes.profiler import capture
from modescope.bench.passes.profiler.capture import KEPT_STEPS
from modescope.bench.passes.profiler.traces import STEP
from modescope.bench.records.cases import Case, Model, Variant
from modescope.bench.records.columns.compiling import Compilations, GeneratedCode
from modescope.bench.records.columns.passes import (
    CeilingRates,
    Memory,
    Profiled,
    Setup,
    Snapshot,
    WorkCounts,
)
from modescope.bench.records.columns.timing import Clocks, StepParts
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Findings, row
from modescope.bench.stats import diagnostics
from modescope.bench.stats.roofline import Ceilings
from modescope.bench.timing import clock_rounds
from tests.helpers import probe_models
from tests.helpers.child_runs import findings_in_child
from tests.helpers.probe_models import case, model, silent, smoke, variant
from tests.helpers.simulated import SimulatedDevice
from tests.helpers.trained_models import small_mlp, subject

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

RUN_ID = "20260301T120000.000001-abc123"
EAGER = variant(grad="inference_mode")
COMPILE = variant(grad="inference_mode", compile="default")
BATCH, WIDTH = 4, 16
MB = 1_000_000

FLOAT = 4
RATES = Ceilings(2e11, ((2**10, 3e10), (2**20, 1e10)))

ROWS, HIDDEN = probe_models.LAYERS_ROWS, probe_models.LAYERS_HIDDEN
HIDDEN_BYTES = ROWS * HIDDEN * FLOAT
OUT_BYTES = ROWS * probe_models.WIDTH * FLOAT
INPUT_BYTES = ROWS * probe_models.WIDTH * FLOAT
WEIGHT_BYTES = FLOAT * (2 * probe_models.WIDTH * HIDDEN + HIDDEN + probe_models.WIDTH)

NULL_ON_A_CPU = {
    *("launches", "copies", "fills", "launch_delay_s", "reserved_bytes", "graph_pool_bytes"),
    *("graph_pool_live_bytes", "workspace_bytes", "snapshot", "gradient_bytes"),
    "optimizer_state_bytes",
    *("profile_note", "memory_note", "snapshot_note", "work_note", "subnormal"),
}


@pytest.fixture(autouse=True)
def _steady_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ceilings, "measure", lambda *device_and_dtype: RATES)
    monkeypatch.setattr(diagnostics, "is_contended", lambda *seen: False)
    yield
    torch.compiler.reset()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    longer = replace(smoke().budget, rank=1)  # or no ceilings are measured
    return replace(smoke(), budget=longer, profile=True, memory=True, results_dir=str(tmp_path))


def chain(ops: int, asked: Variant) -> Case:
    """A chain of pointwise operators; without a batch dimension, so that no empty one compiles."""
    shape = f'{{"batch":{BATCH},"ops":{ops},"width":{WIDTH}}}'
    asked_of = Model("pointwise", "modescope.models.pointwise:build", batch_dim=None)
    return replace(case(asked_of, asked, baseline=None), shape_json=shape)


def names(*parts: Any) -> set[str]:
    return {column.name for part in parts for column in fields(part)}


def nulls(findings: Findings, *parts: Any) -> set[str]:
    return {name for name in names(*parts) if row(findings)[name] is None}


def trace_files(plan: Plan) -> list[Path]:
    return sorted((plan.study_folder / "traces").glob("*"))


def events_in(path: Path) -> list[dict[str, Any]]:
    return [*json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]]


def test_all_passes_of_two_layers_in_inference_mode(plan: Plan) -> None:
    """Work does not depend on the mode: it is counted with gradients."""
    kept: dict[str, Any] = {}

    def report(phase: str, keep: object = None) -> None:
        kept[phase] = keep

    found = runner.run(report, case(model(probe_models.two_layers), EAGER), plan, RUN_ID).findings
    of_passes = (Profiled, Setup, Memory, Snapshot, WorkCounts, CeilingRates)
    assert nulls(found, *of_passes) == NULL_ON_A_CPU | {"guards_s", "compiled_wrapper_s"}
    nothing_compiled = names(Compilations, GeneratedCode)
    assert nulls(found, Compilations, GeneratedCode) == nothing_compiled
    assert set(found.flags) <= {"no_steady_state"}
    assert (found.profile.kernels, found.profile.ops_dispatched) == (3, 3)
    assert found.profile.ops_leaf > 3  # some call others
    assert 0 < found.profile.device_busy_s <= found.profile.profiled_span_s
    assert found.work.flops == 2 * (2 * ROWS * probe_models.WIDTH * HIDDEN)
    assert found.work.least_bytes == WEIGHT_BYTES + INPUT_BYTES + OUT_BYTES
    assert (
        found.work.eager_bytes == found.work.least_bytes + 2 * 2 * HIDDEN_BYTES
    )  # written, then read
    assert found.ceilings.ceiling_bytes_per_s == RATES.bytes_per_s(found.work.least_bytes) == 3e10
    assert (Path(plan.results_dir) / passes.CEILINGS).exists(), "for all studies"

    (path,) = trace_files(plan)
    assert path.name == found.profile.trace == f"{RUN_ID}.json.gz"
    spans_us = [each["dur"] for each in events_in(path) if each["name"] == STEP]
    assert len(spans_us) == KEPT_STEPS
    assert found.profile.profiled_span_s * 1e6 in [pytest.approx(each) for each in spans_us]

    others = {"snapshot", "parts", "steps"}  # of a GPU, of training, of what compiles
    order = [each.name for each in passes.PASSES if each.name not in others]
    assert [phase for phase in kept if phase in order] == order
    notes = ("memory_note", "work_note", "profile_note")
    assert kept["clocks"].lost == ("pipelined_note", "device_note", "dispatch_note", *notes)
    assert kept["memory"].lost == notes
    assert kept["profile"].lost == ("profile_note",)
    assert kept["clocks"].findings.clocks.dispatch_rounds_s is None
    assert kept["memory"].findings.clocks.dispatch_rounds_s is not None
    assert kept["ceilings"].findings.work.flops is not None
    assert kept["profile"].findings.ceilings.ceiling_flops_per_s is not None, (
        "before a profiler is started"
    )
    assert kept["profile"].findings.profile.kernels is None


# Profiler


@pytest.mark.full
def test_a_compiled_chain_is_one_kernel_in_a_divided_call(plan: Plan) -> None:
    found = runner.run(silent, chain(16, COMPILE), plan, RUN_ID).findings
    assert (found.profile.kernels, found.profile.ops_dispatched) == (1, 0)
    assert (found.code.generated_kernels, found.code.extern_calls) == (1, 0)
    assert found.code.bytes_accessed == FLOAT * (2 * BATCH * WIDTH + WIDTH)
    assert found.compilations.compiler_cache_hits + found.compilations.compiler_cache_misses == 1
    assert found.code.fallback_kernels == found.compilations.recompile_reasons == "[]"
    assert (
        0
        < sum(json.loads(found.compilations.compile_phases_s).values())
        <= found.checks.first_call_s
    )
    (kernel,) = json.loads(found.profile.heaviest_kernels)
    assert "cpp_fused" in kernel["name"]
    assert kernel["count"] == 1
    assert min(found.profile.guards_s, found.profile.compiled_wrapper_s) > 0
    assert (
        found.profile.kernels_s
        < found.profile.profiled_span_s - found.profile.guards_s - found.profile.compiled_wrapper_s
    )


@pytest.mark.parametrize(
    ("changes", "noted"),
    [
        ({"replicate": 1}, False),
        ({"trace_max_bytes": 0}, False),
        ({"trace_max_bytes": 100}, True),  # not even one step fits
    ],
)
def test_no_trace_is_kept_of_replicates_or_without_room(
    changes: dict[str, Any], noted: bool, plan: Plan
) -> None:
    found = runner.run(silent, chain(4, EAGER), replace(plan, **changes), RUN_ID).findings
    assert (found.profile.trace, found.profile.profile_note is not None) == (None, noted)
    assert trace_files(plan) == []
    assert found.profile.kernels == 4


def test_traces_of_a_study_stay_within_their_limit(plan: Plan) -> None:
    """The oldest are kept, as rows refer to them; a later one has fewer steps, or there is none."""
    runner.run(silent, chain(64, EAGER), plan, RUN_ID)
    (first,) = trace_files(plan)
    tight = replace(plan, traces_max_bytes=first.stat().st_size * 8 // 5)
    found = runner.run(silent, chain(64, EAGER), tight, "20260302").findings
    assert found.profile.trace == "20260302.json.gz"
    assert f"of {KEPT_STEPS} steps fit into a trace file" in found.profile.profile_note
    kept = trace_files(plan)
    assert first in kept
    used = sum(path.stat().st_size for path in kept)
    assert used <= tight.traces_max_bytes
    full = replace(plan, traces_max_bytes=used)
    found = runner.run(silent, chain(64, EAGER), full, "20260303").findings
    assert (found.profile.trace, found.profile.profile_note, found.profile.kernels) == (
        None,
        NO_ROOM.format("trace"),
        64,
    )
    assert trace_files(plan) == kept


# Memory, in a process of its own as in a sweep


def test_values_kept_of_changed_arguments_are_not_in_memory() -> None:
    asked = case(model(probe_models.consumes), variant())
    found = findings_in_child(asked, replace(smoke(), memory=True))
    assert found.checks.changed_arguments
    assert min(found.memory.weights_bytes, found.memory.input_bytes) > 0
    assert found.memory.resident_bytes == found.memory.weights_bytes + found.memory.input_bytes


# The parts of a training step on a device of known times

BUDGET = replace(smoke().budget, block_s=10.0, clock_rounds=4, timed_max_s=1e9)

HOST_AND_DEVICE_S = {
    "zero_grad": (0.125, 0.0),
    "forward": (1.0, 2.0),
    "scale": (0.0625, 0.0),
    "backward": (0.5, 4.0),
    "unscale": (0.0, 0.5),
    "step": (0.25, 1.0),
    "update": (0.0, 0.25),
}


@dataclass
class Takes:
    """A loss and its scaler, all of whose parts take known times; `seen` are their calls."""

    device: SimulatedDevice
    seen: list[str]

    def take(self, name: str) -> Takes:
        self.seen.append(name)
        self.device.launch(*HOST_AND_DEVICE_S[name])
        return self

    def backward(self) -> None:
        self.take("backward")

    def scale(self, loss: Takes) -> Takes:
        return self.take("scale")

    def unscale_(self, optimizer: Any) -> None:
        self.take("unscale")

    def step(self, optimizer: Any) -> None:
        optimizer.step()

    def update(self) -> None:
        self.take("update")

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen.append("restored")


def simulated(
    queues: bool = True, scaled: bool = False, unscales: bool = False
) -> tuple[Built, SimulatedDevice, list[str]]:
    takes: Any = Takes(SimulatedDevice(queues), [])
    optimizer: Any = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    optimizer._step_supports_amp_scaling = unscales
    optimizer.zero_grad = lambda set_to_none=True: takes.take("zero_grad")
    optimizer.step = lambda closure=None: takes.take("step")
    scaler, start = takes if scaled else None, Start((torch.zeros(1),))
    trainer = Trainer(optimizer, scaler, lambda: takes.take("forward"), start)
    of = subject(small_mlp)
    return Built(of, of.module, trainer.step, trainer.step, trainer), takes.device, takes.seen


def read(made: Built, device: SimulatedDevice, **budget: Any) -> StepParts:
    return passes.read_step_parts(made, device, replace(BUDGET, **budget), 0, latency_s=5.0)


@pytest.mark.parametrize(("queues", "latency_s"), [(True, 8.125), (False, 8.875)])
def test_the_device_is_synchronised_after_every_part(queues: bool, latency_s: float) -> None:
    """The whole step launches forward's 2 s of work, and the rest while the device works."""
    made, device, seen = simulated(queues)
    assert read(made, device) == StepParts(
        forward_rounds_s=(3.0,) * 4,
        backward_rounds_s=(4.5,) * 4,
        optimizer_rounds_s=(1.375,) * 4,
        parts_latency_rounds_s=(latency_s,) * 4,
        scaler_rounds_s=None,
        parts_note=None,
    )
    assert seen == ["zero_grad", "forward", "backward", "step"] * (len(seen) // 4)


def test_a_scaler_has_its_own_part() -> None:
    made, device, seen = simulated(scaled=True)
    found = read(made, device)
    assert found.scaler_rounds_s == (0.0625 + 0.5 + 0.25,) * 4
    assert found.optimizer_rounds_s == (1.375,) * 4
    assert found.parts_note is None
    calls = ["zero_grad", "forward", "scale", "backward", "unscale", "step", "update"]
    assert seen.count("unscale") == 4 * 2, "in each timed step of the parts, not in whole steps"
    for place in (i for i, name in enumerate(seen) if name == "unscale"):
        assert seen[place - 4 : place + 3] == calls
    assert seen.count("restored") == 2 * 4 + 1, "before each block, and once at the end"

    made, device, seen = simulated(scaled=True, unscales=True)  # a fused optimizer
    found = read(made, device)
    assert "unscale" not in seen
    assert found.scaler_rounds_s == (0.0625 + 0.25,) * 4
    assert found.parts_note == FUSED_UNSCALES


def test_a_captured_step_has_no_parts() -> None:
    made, device, seen = simulated()
    captured = replace(made, step=lambda: None)
    assert read(captured, device) == StepParts(parts_note=passes.ONE_GRAPH)
    assert seen == []


@pytest.mark.parametrize(("timed_max_s", "rounds"), [(143.0, 2), (141.0, 1), (1.0, 1)])
def test_slow_steps_get_fewer_rounds(timed_max_s: float, rounds: int) -> None:
    """A round has two blocks, each of a first step, one to settle and two that are timed: 71 s."""
    made, device, _ = simulated(queues=False)
    found = read(made, device, timed_max_s=timed_max_s)
    assert len(found.forward_rounds_s) == len(found.parts_latency_rounds_s) == rounds


# Snapshots of an allocator that writes files of known sizes


class Writing(CpuAllocator):
    """Each of `events` takes `event_bytes`; no more of them are kept than asked for."""

    snapshots = True

    def __init__(self, events: int, event_bytes: int) -> None:
        self.events, self.event_bytes = events, event_bytes
        self.asked: list[int] = []

    @contextmanager
    def record(self, path: Path, entries: int) -> Iterator[None]:
        self.asked.append(entries)
        yield
        with path.open("wb") as file:
            file.truncate(min(entries, self.events) * self.event_bytes)


@pytest.mark.parametrize(
    ("event_bytes", "max_bytes", "asked", "kept"),
    [
        (500, 5 * MB, [20_000], Snapshot("run.pickle", None)),
        (25_000, 5 * MB, [20_000, 2_000, 200],
         Snapshot("run.pickle", SNAPSHOT_CUT.format(200, 5))),
        (25_001, 5 * MB, [20_000, 2_000, 200], Snapshot(None, SNAPSHOT_TOO_LARGE.format(200, 5))),
        (500, 0, [], Snapshot(None, NO_ROOM.format("snapshot"))),
    ],
    ids=["whole", "cut twice", "too large", "no room"],
)  # fmt: skip
def test_as_many_events_are_kept_as_fit(
    event_bytes: int, max_bytes: int, asked: list[int], kept: Snapshot, tmp_path: Path
) -> None:
    allocator, calls = Writing(10_000, event_bytes), []
    path = tmp_path / "run.pickle"
    found = passes.keep_snapshot(lambda: calls.append(1), allocator, path, max_bytes)
    assert (found, allocator.asked, len(calls)) == (kept, asked, len(asked))
    assert [file.name for file in tmp_path.iterdir()] == ([path.name] if kept.snapshot else [])


# Failures


def raising(*arguments: Any, **options: Any) -> None:
    raise RuntimeError("this is\nnot supported")


OF_CEILINGS = {"ceiling_flops_per_s", "ceiling_bytes_per_s"}
OF_WORK = {"flops", "least_bytes", "eager_bytes", "ceiling_bytes_per_s"}
FAILURES = {
    "clocks": (clock_rounds, "read", "dispatch_note", names(Clocks)),
    "memory": (memory, "read", "memory_note", names(Memory)),
    "work": (counting, "count", "work_note", OF_WORK),
    "profile": (capture, "capture", "profile_note", names(Profiled)),
    "ceilings": (ceilings, "ceilings", "work_note", OF_CEILINGS),
}


def test_a_failed_pass_leaves_only_its_columns_null(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = case(model(probe_models.linear), EAGER)
    filled = {
        key for key, value in row(runner.run(silent, asked, plan).findings).items()
        if value is not None
    }  # fmt: skip
    for name, (where, function, note, its_own) in FAILURES.items():
        with monkeypatch.context() as patch:
            patch.setattr(where, function, raising)
            result = runner.run(silent, asked, plan)
        assert (result.status, result.reason) == ("ok", None)
        found = row(result.findings)
        assert found[note] == f"the {name} pass failed (RuntimeError: this is not supported)"
        lost = {key for key in its_own & filled if not key.endswith("_note")}
        assert {key for key in filled if found[key] is None} == lost

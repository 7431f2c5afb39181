"""Passes of a whole run on a GPU: launches, device time, pools and files."""

from __future__ import annotations

import gzip
import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.case import runner
from modescope.bench.passes.profiler import facts
from modescope.bench.records.cases import Case, Model, Variant
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Findings
from tests.helpers.probe_models import case, preset, silent, smoke

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("fresh_compiler")]

RUN_ID = "20260301T120000.000001-abc123"
OPS = 16


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return replace(smoke(), profile=True, memory=True, results_dir=str(tmp_path))


def chain(mode: str) -> Case:
    asked = Model("pointwise", "modescope.models.pointwise:build")
    of = case(asked, Variant(preset(mode), "fp32"), device="cuda")
    return replace(of, shape_json=f'{{"batch":4,"ops":{OPS},"width":16}}')


def found(mode: str, plan: Plan) -> Findings:
    result = runner.run(silent, chain(mode), plan, RUN_ID)
    assert (result.status, result.reason) == ("ok", None)
    notes = (
        result.findings.profile.profile_note,
        result.findings.memory.memory_note,
        result.findings.work.work_note,
    )
    assert not any("failed" in note for note in notes if note)
    return result.findings


@pytest.mark.parametrize(
    ("mode", "kernels", "launches", "graph_launches"),
    [
        ("inference_mode", OPS, OPS, 0),
        ("compile", 1, 1, 0),
        ("cuda-graph", OPS, 0, 1),
        ("compile-cuda-graph", 1, 0, 1),
    ],
)
def test_kernels_and_launches_of_each_mode(
    mode: str, kernels: int, launches: int, graph_launches: int, plan: Plan
) -> None:
    seen = found(mode, plan)
    assert (seen.profile.kernels, seen.profile.launches) == (kernels, launches)
    assert seen.checks.graph_launches == graph_launches
    assert (seen.profile.copies, seen.profile.fills) == (0, 0)
    assert seen.profile.launch_delay_s > 0
    assert 0 < seen.profile.device_busy_s <= seen.profile.profiled_span_s
    assert (seen.code.generated_kernels is None) == (not mode.startswith("compile"))


def test_trace_and_snapshot_files_are_written(plan: Plan) -> None:
    seen = found("inference_mode", plan)
    folder = plan.study_folder / "traces"
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"{RUN_ID}.json.gz", f"{RUN_ID}.pickle"]
    assert (seen.profile.trace, seen.snapshot.snapshot, seen.snapshot.snapshot_note) == (
        *names,
        None,
    )
    trace = json.loads(gzip.decompress((folder / names[0]).read_bytes()))
    assert [step.launches for step in facts.read(trace)] == [OPS] * 5
    snapshot = pickle.loads((folder / names[1]).read_bytes())
    assert any(trace for trace in snapshot["device_traces"])
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2 * plan.trace_max_bytes


def test_eager_bytes_count_the_traffic_of_every_operator(plan: Plan) -> None:
    """Each operator of the chain reads and writes the tensor; compiled code does it once."""
    seen = found("compile", plan)
    assert seen.code.bytes_accessed == seen.work.least_bytes
    assert seen.work.eager_bytes >= OPS * 2 * 4 * (4 * 16)

"""Passes of a whole run on a GPU: launches, device time, pools and files."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bench import runner
from bench.profiling import facts
from bench.records import Case, Findings, Model, Plan, Variant
from tests.probes import case, preset, silent, smoke

pytestmark = pytest.mark.cuda

RUN_ID = "20260301T120000.000001-abc123"
OPS = 16


@pytest.fixture(autouse=True)
def _process_as_it_was() -> Iterator[None]:
    yield
    torch.compiler.reset()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return replace(smoke(), profile=True, memory=True, results_dir=str(tmp_path))


def chain(mode: str) -> Case:
    asked = Model("pointwise", "models.pointwise:build")
    of = case(asked, Variant(preset(mode), "fp32"), device="cuda")
    return replace(of, shape_json=f'{{"batch":4,"ops":{OPS},"width":16}}')


def found(mode: str, plan: Plan) -> Findings:
    result = runner.run(silent, chain(mode), plan, RUN_ID)
    assert (result.status, result.reason) == ("ok", None)
    notes = (result.findings.profile_note, result.findings.memory_note, result.findings.work_note)
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
def test_kernels_and_launches(
    mode: str, kernels: int, launches: int, graph_launches: int, plan: Plan
) -> None:
    seen = found(mode, plan)
    assert (seen.kernels, seen.launches) == (kernels, launches)
    assert seen.graph_launches == graph_launches
    assert (seen.copies, seen.fills) == (0, 0)
    assert seen.launch_delay_s > 0
    assert 0 < seen.device_busy_s <= seen.profiled_span_s
    assert (seen.generated_kernels is None) == (not mode.startswith("compile"))


def test_a_graph_has_a_pool_and_allocates_nothing(plan: Plan) -> None:
    seen = found("cuda-graph", plan)
    assert seen.graph_pool_bytes > 0
    assert seen.reserved_bytes >= seen.graph_pool_bytes
    assert 0 < seen.graph_pool_live_bytes <= min(seen.graph_pool_bytes, seen.resident_bytes)
    assert (seen.allocations_per_call, seen.step_peak_bytes) == (0, 0)
    assert seen.setup_peak_bytes > 0
    assert seen.setup_peak_note is None


def test_a_trace_and_a_snapshot_are_kept(plan: Plan) -> None:
    seen = found("inference_mode", plan)
    folder = plan.study_folder / "traces"
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"{RUN_ID}.json.gz", f"{RUN_ID}.pickle"]
    assert (seen.trace, seen.snapshot, seen.snapshot_note) == (*names, None)
    assert [step.launches for step in facts.read(folder / names[0]).steps] == [OPS] * 5
    snapshot = pickle.loads((folder / names[1]).read_bytes())
    assert any(trace for trace in snapshot["device_traces"])
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2 * plan.trace_max_bytes


def test_a_pointwise_chain_is_bound_by_bytes_and_its_ceiling_is_known(plan: Plan) -> None:
    seen = found("inference_mode", plan)
    assert seen.flops == 0
    assert seen.least_bytes == 4 * (2 * 4 * 16 + 16)
    assert seen.ceiling_flops_per_s > 1e12
    assert seen.ceiling_bytes_per_s > 1e9


def test_eager_moves_what_the_compiler_saves(plan: Plan) -> None:
    """Each of the operators of the chain reads and writes the whole; compiled, it is done once."""
    seen = found("compile", plan)
    assert seen.bytes_accessed == seen.least_bytes
    assert seen.eager_bytes >= OPS * 2 * 4 * (4 * 16)

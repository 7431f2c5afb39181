"""Flags from a comparison of two rows: device time of eager, gated and in a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.flags import GATE, SLOW
from modescope.analysis.derive.registry import derived
from modescope.bench.records.results import Record
from tests.helpers.studies import PACE_S, cpu_clocks, cuda_clocks, record, save

END = 0.01 * 7 / 11  # of the interval of twelve blocks
APART = 1.05 * (1 + END) / (1 - END)  # both intervals, and 5 % between them


def _eager(mode: str, device_s: float = 40e-6, **columns: Any) -> Record:
    host_s = 8e-6 if mode == "cuda-graph" else 100e-6
    latency_s = max(host_s, device_s) + 10e-6
    return record(mode, latency_s, 1.2, **(cuda_clocks(host_s, device_s) | columns))


def _flagged(folder: Path, *records: Record) -> set[str]:
    rows = derived(save(records, folder))
    return {
        mode for mode, raised in zip(rows["mode"], rows["flags"], strict=True) if GATE in raised
    }


@pytest.mark.parametrize(
    ("graph_s", "contradicts"),
    [
        (40e-6, False),
        (40e-6 * APART * 0.999, False),
        (40e-6 * APART * 1.001, True),
        (40e-6 / APART * 1.001, False),
        (40e-6 / APART * 0.999, True),
    ],
)
def test_both_rows_are_flagged_where_their_device_times_differ(
    tmp_path: Path, graph_s: float, contradicts: bool
) -> None:
    found = _flagged(tmp_path, _eager("inference_mode"), _eager("cuda-graph", graph_s))
    assert found == ({"inference_mode", "cuda-graph"} if contradicts else set())


@pytest.mark.parametrize(
    "differs",
    [
        {"grad": "no_grad"},
        {"dtype": "bf16", "baseline_dtype": "bf16"},
        {"shape": '{"batch":5}'},
        {"autocast": True},
        {"compile_mode": "default"},
        {"in_effect": False},
        {"budget": "smoke"},
        {"status": "wrong_result", "reason": "why"},
        {"device_rounds_s": None},
        {"phase": "train"},
        {"optimizer": "sgd"},
        {"training": '{"checkpoint":"model"}'},
    ],
    ids=lambda differs: next(iter(differs)),
)
def test_only_trusted_rows_of_the_same_kernels_are_compared(
    tmp_path: Path, differs: dict[str, Any]
) -> None:
    graph = _eager("cuda-graph", 60e-6)
    assert _flagged(tmp_path / "eager", _eager("inference_mode", **differs), graph) == set()
    other = _eager("cuda-graph", 60e-6, **differs)
    assert _flagged(tmp_path / "graph", _eager("inference_mode"), other) == set()


@pytest.mark.parametrize(("optimizer", "contradicts"), [("sgd", True), ("adamw", False)])
def test_steps_are_compared_where_the_optimizer_runs_the_same_kernels_in_a_graph(
    tmp_path: Path, optimizer: str, contradicts: bool
) -> None:
    step: dict[str, Any] = {"phase": "train", "optimizer": optimizer, "grad": "enabled"}
    found = _flagged(tmp_path, _eager("eager", **step), _eager("cuda-graph", 60e-6, **step))
    assert found == ({"eager", "cuda-graph"} if contradicts else set())


def test_a_gpu_at_another_clock_slows_the_baseline_too(tmp_path: Path) -> None:
    slow: dict[str, Any] = {"baseline_device_rounds_s": (60e-6,) * 12}
    graph = _eager("cuda-graph", 60e-6, **slow)
    assert _flagged(tmp_path / "both", _eager("inference_mode"), graph) == set()
    alone = _eager("cuda-graph", **slow)
    assert len(_flagged(tmp_path / "alone", _eager("inference_mode"), alone)) == 2
    unknown = _eager("cuda-graph", 60e-6, baseline_device_rounds_s=None)
    assert _flagged(tmp_path / "unknown", _eager("inference_mode"), unknown) == set()


def test_earlier_flags_are_kept(tmp_path: Path) -> None:
    records = [_eager("inference_mode", flags=("drift",)), _eager("cuda-graph", 60e-6)]
    rows = derived(save(records, tmp_path)).set_index("mode")
    assert rows["flags"]["inference_mode"] == ["drift", GATE]
    assert rows["flags"]["cuda-graph"] == [GATE]


def test_rows_of_a_cpu_are_not_flagged(tmp_path: Path) -> None:
    records = [record(mode, 1e-4, 1.0, **cpu_clocks(1e-4, 1e-5)) for mode in ("eager", "no_grad")]
    assert _flagged(tmp_path, *records) == set()


@pytest.mark.parametrize(
    ("pace_s", "columns", "flagged"),
    [
        (1.24 * PACE_S, {}, False),
        (1.26 * PACE_S, {}, True),
        (1.26 * PACE_S, {"budget": "smoke"}, False),
        (PACE_S, {"best_pace_s": PACE_S / 1.24}, False),
        (PACE_S, {"best_pace_s": PACE_S / 1.26}, True),
        (None, {}, False),
    ],
)
def test_a_row_is_flagged_where_the_machine_was_far_from_its_best_known_pace(
    tmp_path: Path, pace_s: float | None, columns: dict[str, Any], flagged: bool
) -> None:
    """The best is that of another row of the study, or of another study on the machine."""
    paces_s = None if pace_s is None else (pace_s,) * 40
    study = [record("eager"), record("compile", pace_rounds_s=paces_s, **columns)]
    rows = derived(save(study, tmp_path))
    (raised,) = rows["flags"][rows["mode"] == "compile"]
    assert (SLOW in raised) == flagged

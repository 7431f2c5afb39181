"""Causes in CUDA graphs and in modes that are not in effect: worlds with each, and others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.causes import codes, of_last, profiled, rows_of
from tests.helpers.studies import cuda_clocks, record

NO_GPU = "CUDA graphs need a GPU: on a CPU this runs without CUDA graphs"
SKIPPED = '["skipping cudagraphs due to mutated inputs (1 instances)"]'


def test_a_mode_without_its_graphs_says_why_and_nothing_else(tmp_path: Path) -> None:
    columns = profiled(100e-6, ("aten::addmm", 4, 80e-6))
    one = record("reduce-overhead", speedup=1.0, in_effect=False, in_effect_note=NO_GPU, **columns)
    (found,) = of_last(rows_of([one], tmp_path))
    assert found.code == "not_graphed"
    assert found.sentence == f"no CUDA graph was launched ({NO_GPU})."
    assert found.remedy == "Use compile here, which runs the same code."


def test_torchs_reason_comes_before_the_note(tmp_path: Path) -> None:
    one = record("reduce-overhead", in_effect=False, in_effect_note=NO_GPU, device="cuda")
    (found,) = of_last(rows_of([one], tmp_path), cudagraph_skip_reasons=SKIPPED)
    assert "mutated inputs (1 instances)" in found.sentence


def test_a_part_without_graphs_is_no_mode_without_graphs(tmp_path: Path) -> None:
    rows = rows_of([record("reduce-overhead", speedup=1.0, first_call_s=0.1)], tmp_path)
    assert codes(of_last(rows, cudagraph_skip_reasons=SKIPPED)) == ["partly_graphed"]
    assert codes(of_last(rows)) == []
    assert codes(of_last(rows, cudagraph_skip_reasons=SKIPPED, compile="default")) == []


@pytest.mark.parametrize("mode", ["max-autotune-no-cudagraphs", "no_grad"])
def test_a_mode_that_is_not_in_effect_for_another_reason(tmp_path: Path, mode: str) -> None:
    one = record(mode, in_effect=False, in_effect_note="there was nothing to choose")
    (found,) = of_last(rows_of([one], tmp_path))
    assert found.code == "not_in_effect"
    assert "there was nothing to choose" in found.sentence


@pytest.mark.parametrize(
    ("host_s", "device_s", "launched", "speedup", "named"),
    [
        (8e-6, 90e-6, 1, 1.0, True),
        (8e-6, 90e-6, 0, 1.0, False),  # no graph
        (95e-6, 40e-6, 1, 1.0, False),  # the host is the limit
        (8e-6, 90e-6, 1, 1.5, False),  # it gains
    ],
)
def test_saved_launches_do_not_help_a_busy_device(
    tmp_path: Path, host_s: float, device_s: float, launched: int, speedup: float, named: bool
) -> None:
    eager = record("inference_mode", 100e-6, 1.0, launches=84, **cuda_clocks(20e-6, 90e-6))
    graph = record(
        "cuda-graph", 100e-6, speedup, graph_launches=launched, launches=0,
        **cuda_clocks(host_s, device_s),
    )  # fmt: skip
    found = of_last(rows_of([eager, graph], tmp_path))
    assert ("device_is_the_limit" in codes(found)) is named
    assert not named or found[0].sentence.startswith(
        "84 launches of eager became 1 graph launch, but the device works for 90.0 % ["
    )

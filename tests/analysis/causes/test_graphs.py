"""Causes in CUDA graphs and in modes that are not in effect: worlds with each, and others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


def test_a_mode_without_its_graphs_names_the_launches_that_remain(tmp_path: Path) -> None:
    one = record("reduce-overhead", in_effect=False, in_effect_note=NO_GPU, device="cuda")
    (found,) = of_last(rows_of([one], tmp_path), launches=84)
    assert found.sentence.startswith("no CUDA graph was launched, and a call makes 84 launches (")


def test_a_part_without_graphs_is_no_mode_without_graphs(tmp_path: Path) -> None:
    rows = rows_of([record("reduce-overhead", speedup=1.0, first_call_s=0.1)], tmp_path)
    assert codes(of_last(rows, cudagraph_skip_reasons=SKIPPED)) == ["partly_graphed"]
    assert codes(of_last(rows)) == []
    assert codes(of_last(rows, cudagraph_skip_reasons=SKIPPED, compile_mode="default")) == []


def test_the_part_without_graphs_weighs_what_the_device_waits(tmp_path: Path) -> None:
    one = record("reduce-overhead", 100e-6, 1.0, first_call_s=0.1, **cuda_clocks(95e-6, 40e-6))
    rows = rows_of([one], tmp_path)
    found = of_last(rows, cudagraph_skip_reasons=SKIPPED, launches=31)
    assert codes(found) == ["partly_graphed", "bound_by_overhead"]
    assert found[0].share == pytest.approx(0.6, abs=0.01)
    assert "out of its CUDA graphs, 31 launches of a call (skipping cudagraphs" in found[0].sentence


WARNED = json.dumps(["CUDAGraph supports dynamic shapes. We have observed 9 distinct sizes."])
RESIZED = json.dumps(["tensor 'x' size mismatch at index 1. expected 128, actual 192"])


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (
            {"torch_warnings": WARNED, "graph_pool_bytes": 3 * 2**30},
            "a CUDA graph is recorded for each input size, 9 so far, which hold 3.00 GiB.",
        ),
        (
            {"recompile_reasons": RESIZED},
            "a CUDA graph is recorded for each input size, several so far (tensor 'x' size "
            "mismatch at index 1. expected 128, actual 192).",
        ),
        (  # two reasons are not two sizes more
            {"recompile_reasons": json.dumps([*json.loads(RESIZED), "tensor 'y' size mismatch"])},
            "a CUDA graph is recorded for each input size, several so far (tensor 'x' size "
            "mismatch at index 1. expected 128, actual 192 (and 1 more)).",
        ),
    ],
)
def test_a_graph_for_each_size(tmp_path: Path, columns: dict[str, Any], sentence: str) -> None:
    one = record("reduce-overhead", 100e-6, 0.8, first_call_s=0.1, **cuda_clocks(95e-6, 40e-6))
    found = of_last(rows_of([one], tmp_path), **columns)
    assert codes(found)[0] == "graph_per_size"
    assert found[0].sentence == sentence
    assert found[0].share == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize(
    "columns",
    [
        {"torch_warnings": json.dumps(["observed a slow kernel"])},
        {"recompile_reasons": json.dumps(["a global changed"])},
        {"recompile_reasons": RESIZED, "compile_mode": "default"},
        {"recompile_reasons": RESIZED, "in_effect": False},
        {"recompile_reasons": RESIZED, "device": "cpu"},
    ],
)
def test_no_graph_for_each_size(tmp_path: Path, columns: dict[str, Any]) -> None:
    one = record("reduce-overhead", 100e-6, 0.8, first_call_s=0.1, **cuda_clocks(95e-6, 40e-6))
    assert "graph_per_size" not in codes(of_last(rows_of([one], tmp_path), **columns))


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


def test_a_busy_device_explains_a_small_gain_before_what_is_saved(tmp_path: Path) -> None:
    eager = record("inference_mode", 100e-6, 1.0, launches=84, **cuda_clocks(20e-6, 90e-6))
    graph = record(
        "reduce-overhead", 100e-6, 1.06, first_call_s=0.1, graph_launches=1, launches=0,
        **cuda_clocks(8e-6, 95e-6),
    )  # fmt: skip
    found = of_last(rows_of([eager, graph], tmp_path))
    assert codes(found)[0] == "device_is_the_limit"
    assert "compiled_code" in codes(found)
    assert found[0].text.startswith("reduce-overhead is only 6 % faster than eager")
    assert ": 84 launches of eager became 1 graph launch, but the device" in found[0].text


@pytest.mark.parametrize(
    ("mode", "advised"),
    [("compile", "mode=reduce-overhead"), ("reduce-overhead", "mode=compile-cuda-graph")],
)
def test_a_graph_with_guards_is_advised_to_be_captured_whole(
    mode: str, advised: str, tmp_path: Path
) -> None:
    """On an H100 `reduce-overhead` was told to capture a graph, which it had done."""
    records = [
        record("inference_mode", 400e-6, 1.0, **cuda_clocks(20e-6, 390e-6)),
        record(mode, 500e-6, 0.8, **cuda_clocks(400e-6, 390e-6)),
    ]
    found = {one.code: one for one in of_last(rows_of(records, tmp_path))}
    assert advised in found["more_overhead"].remedy


@pytest.mark.parametrize("measured", [True, False])
def test_autotuning_is_no_advice_where_it_was_measured(measured: bool, tmp_path: Path) -> None:
    clocks = cuda_clocks(8e-6, 95e-6)
    others = [record("max-autotune", 100e-6, 0.9, **clocks)] if measured else []
    graph = record("cuda-graph", 100e-6, 1.02, graph_launches=1, launches=0, **clocks)
    found = {one.code: one for one in of_last(rows_of([*others, graph], tmp_path))}
    assert ("max-autotune" not in found["device_is_the_limit"].remedy) is measured

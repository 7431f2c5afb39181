"""Which combinations are refused, on which device, and what the reader is told to do instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.objections import objection
from bench.records import DeviceFacts, Mode, Variant
from tests.made_up import AMP, COMPILE, CPU, EAGER, H100, V100, case

GRAPH = Mode("cuda-graph", "inference_mode", autocast=False, compile="none", graph=True)
COMPILED_GRAPH = replace(GRAPH, name="compile-cuda-graph", compile="default")
TWO_GRAPHS = replace(GRAPH, name="reduce-overhead[graph=true]", compile="reduce-overhead")
TUNED_TWO_GRAPHS = replace(GRAPH, name="max-autotune[graph=true]", compile="max-autotune")
TUNED_GRAPH = replace(TUNED_TWO_GRAPHS, compile="max-autotune-no-cudagraphs")
REDUCED = replace(TWO_GRAPHS, name="reduce-overhead", graph=False)

NO_GRAPH = "a CUDA graph needs an NVIDIA GPU, and this runs on Some CPU; there, try mode=compile"
TWICE = (
    "captures CUDA graphs by itself; drop mode.graph=true, or capture another one by hand with "
    "mode=compile-cuda-graph"
)
NO_CAST = "use dtype=bf16 or dtype=fp16, or a mode without autocast"
NO_TF32 = "tf32 needs an NVIDIA GPU of compute capability 8.0 or newer, and this runs on "

TABLE = [
    # mode, dtype, device, objection
    (EAGER, "fp32", CPU, None),
    (EAGER, "bf16", CPU, None),
    (EAGER, "fp16", CPU, None),
    (EAGER, "tf32", CPU, NO_TF32 + "Some CPU; use dtype=fp32"),
    (EAGER, "tf32", V100, NO_TF32 + "Tesla V100; use dtype=fp32"),
    (EAGER, "tf32", replace(V100, capability=(7, 5)), NO_TF32 + "Tesla V100; use dtype=fp32"),
    (EAGER, "tf32", replace(V100, capability=(8, 0)), None),
    (EAGER, "tf32", replace(V100, capability=(12, 0)), None),
    (EAGER, "tf32", H100, None),
    (AMP, "bf16", CPU, None),
    (AMP, "fp16", H100, None),
    (AMP, "fp32", CPU, f"autocast to fp32 casts nothing; {NO_CAST}"),
    (AMP, "fp32", H100, f"autocast to fp32 casts nothing; {NO_CAST}"),
    (AMP, "tf32", H100, f"autocast to tf32 casts nothing; {NO_CAST}"),
    (COMPILE, "fp32", CPU, None),
    (REDUCED, "fp32", CPU, None),  # runs, and its record says that there are no graphs
    (REDUCED, "fp32", H100, None),
    (GRAPH, "fp32", CPU, NO_GRAPH),
    (COMPILED_GRAPH, "fp32", CPU, NO_GRAPH),
    (GRAPH, "fp32", V100, None),
    (COMPILED_GRAPH, "bf16", H100, None),
    (TUNED_GRAPH, "fp32", H100, None),
    (TWO_GRAPHS, "fp32", H100, f"compile mode reduce-overhead {TWICE}"),
    (TUNED_TWO_GRAPHS, "fp32", H100, f"compile mode max-autotune {TWICE}"),
    (TWO_GRAPHS, "fp32", CPU, NO_GRAPH),
]


@pytest.mark.parametrize(
    ("mode", "dtype", "device", "reason"),
    TABLE,
    ids=[f"{mode.name}-{dtype}-{device.name}" for mode, dtype, device, _ in TABLE],
)
def test_what_is_refused(mode: Mode, dtype: str, device: DeviceFacts, reason: str | None) -> None:
    assert objection(case(variant=Variant(mode, dtype), baseline=None), device) == reason


MIXED = (
    "tf32 is a switch of the whole process, so a baseline in {baseline} cannot run beside a case "
    "in {dtype}; drop baseline.dtype, and measure eager in both to compare them"
)


@pytest.mark.parametrize(
    ("dtype", "baseline", "device", "reason"),
    [
        ("bf16", Variant(EAGER, "fp32"), CPU, None),
        ("tf32", Variant(EAGER, "tf32"), H100, None),
        ("tf32", Variant(EAGER, "fp32"), H100, MIXED.format(baseline="fp32", dtype="tf32")),
        ("bf16", Variant(EAGER, "tf32"), H100, MIXED.format(baseline="tf32", dtype="bf16")),
        (
            "fp32",
            Variant(EAGER, "tf32"),
            V100,
            f"the baseline eager: {NO_TF32}Tesla V100; use baseline.dtype=fp32",
        ),
        (
            "fp32",
            Variant(AMP, "fp32"),
            CPU,
            "the baseline amp: autocast to fp32 casts nothing; use baseline.dtype=bf16 or "
            "baseline.dtype=fp16, or a mode without autocast",
        ),
        (
            "fp32",
            Variant(GRAPH, "fp32"),
            CPU,
            "the baseline cuda-graph: a CUDA graph needs an NVIDIA GPU, and this runs on Some CPU; "
            "there, try baseline.mode=compile",
        ),
    ],
)
def test_a_baseline_can_be_refused(
    dtype: str, baseline: Variant, device: DeviceFacts, reason: str | None
) -> None:
    asked = case(variant=Variant(COMPILE, dtype), baseline=baseline)
    assert objection(asked, device) == reason


def test_the_case_itself_is_refused_before_its_baseline() -> None:
    both = Variant(EAGER, "tf32")
    assert objection(case(variant=both, baseline=both), CPU).startswith("tf32 needs")

"""Which combinations are refused, on which device, and the suggested alternative."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modescope.bench.records.cases import CompileOptions, Mode, Variant
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.refusals import refusal, same_kernels, untuned
from tests.helpers.made_up_records import AMP, COMPILE, CPU, EAGER, H100, V100, case

GRAPH = Mode("cuda-graph", "inference_mode", autocast=False, compile="none", graph=True)
COMPILED_GRAPH = replace(GRAPH, name="compile-cuda-graph", compile="default")
TWO_GRAPHS = replace(GRAPH, name="reduce-overhead[graph=true]", compile="reduce-overhead")
TUNED_TWO_GRAPHS = replace(GRAPH, name="max-autotune[graph=true]", compile="max-autotune")
TUNED_GRAPH = replace(TUNED_TWO_GRAPHS, compile="max-autotune-no-cudagraphs")
REDUCED = replace(TWO_GRAPHS, name="reduce-overhead", graph=False)

DYNAMIC = replace(COMPILE, name="compile[dynamic=true]", options=CompileOptions(dynamic=True))

TABLE = [
    # mode, dtype, device, part of the remedy
    (EAGER, "fp32", CPU, None),
    (EAGER, "bf16", CPU, None),
    (EAGER, "fp16", CPU, None),
    (EAGER, "tf32", CPU, "dtype=fp32"),
    (EAGER, "tf32", V100, "dtype=fp32"),
    (EAGER, "tf32", replace(V100, capability=(7, 5)), "dtype=fp32"),
    (EAGER, "tf32", replace(V100, capability=(8, 0)), None),
    (EAGER, "tf32", replace(V100, capability=(12, 0)), None),
    (EAGER, "tf32", H100, None),
    (AMP, "bf16", CPU, None),
    (AMP, "fp16", H100, None),
    (AMP, "fp32", CPU, "dtype=bf16"),
    (AMP, "fp32", H100, "dtype=bf16"),
    (AMP, "tf32", H100, "dtype=bf16"),
    (COMPILE, "fp32", CPU, None),
    (REDUCED, "fp32", CPU, None),  # runs, and its record notes that there are no graphs
    (REDUCED, "fp32", H100, None),
    (DYNAMIC, "fp32", CPU, None),
    (replace(DYNAMIC, compile="none"), "fp32", CPU, "leave out mode.dynamic"),
    (GRAPH, "fp32", CPU, "mode=compile"),
    (COMPILED_GRAPH, "fp32", CPU, "mode=compile"),
    (GRAPH, "fp32", V100, None),
    (COMPILED_GRAPH, "bf16", H100, None),
    (TUNED_GRAPH, "fp32", H100, None),
    (TWO_GRAPHS, "fp32", H100, "leave out mode.graph"),
    (TUNED_TWO_GRAPHS, "fp32", H100, "leave out mode.graph"),
    (TWO_GRAPHS, "fp32", CPU, "mode=compile"),
]


@pytest.mark.parametrize(
    ("mode", "dtype", "device", "reason"),
    TABLE,
    ids=[f"{mode.name}-{dtype}-{device.name}" for mode, dtype, device, _ in TABLE],
)
def test_combinations_that_are_refused(
    mode: Mode, dtype: str, device: DeviceFacts, reason: str | None
) -> None:
    found = refusal(case(variant=Variant(mode, dtype), baseline=None), device)
    assert (found is None) == (reason is None)
    assert reason is None or reason in found


@pytest.mark.parametrize(
    ("dtype", "baseline", "device", "reason"),
    [
        ("bf16", Variant(EAGER, "fp32"), CPU, None),
        ("tf32", Variant(EAGER, "tf32"), H100, None),
        ("tf32", Variant(EAGER, "fp32"), H100, "leave out baseline.dtype"),
        ("bf16", Variant(EAGER, "tf32"), H100, "leave out baseline.dtype"),
        (
            "fp32",
            Variant(EAGER, "tf32"),
            V100,
            "use baseline.dtype=fp32",
        ),
        (
            "fp32",
            Variant(AMP, "fp32"),
            CPU,
            "use baseline.dtype=bf16",
        ),
        (
            "fp32",
            Variant(GRAPH, "fp32"),
            CPU,
            "use baseline.mode=compile",
        ),
    ],
)
def test_a_baseline_can_be_refused(
    dtype: str, baseline: Variant, device: DeviceFacts, reason: str | None
) -> None:
    found = refusal(case(variant=Variant(COMPILE, dtype), baseline=baseline), device)
    assert (found is None) == (reason is None)
    assert reason is None or reason in found


def test_the_case_itself_is_refused_before_its_baseline() -> None:
    both = Variant(EAGER, "tf32")
    assert refusal(case(variant=both, baseline=both), CPU).startswith("tf32 needs")


TUNED = replace(REDUCED, name="max-autotune", compile="max-autotune")
TUNED_ALONE = replace(TUNED, name="tuned", compile="max-autotune-no-cudagraphs")


@pytest.mark.parametrize(
    ("mode", "present", "device", "repeated"),
    [
        (REDUCED, COMPILE, CPU, True),
        (TUNED, TUNED_ALONE, CPU, True),
        (REDUCED, COMPILE, H100, False),
        (REDUCED, TUNED_ALONE, CPU, False),
        (TUNED, COMPILE, CPU, False),
        (COMPILE, COMPILE, CPU, False),
        (REDUCED, REDUCED, CPU, False),
        (REDUCED, replace(COMPILE, grad="no_grad"), CPU, False),
        (replace(REDUCED, options=DYNAMIC.options), COMPILE, CPU, False),
        (replace(REDUCED, options=DYNAMIC.options), DYNAMIC, CPU, True),
    ],
)
def test_the_same_kernels_are_measured_once_in_a_sweep(
    mode: Mode, present: Mode, device: DeviceFacts, repeated: bool
) -> None:
    grad = mode.grad
    asked, other = (
        case(variant=Variant(replace(each, grad=of), "fp32"))
        for each, of in ((mode, grad), (present, grad if present.grad != "no_grad" else "no_grad"))
    )
    reason = same_kernels(asked, device, {asked.case_id: "asked", other.case_id: "the other"})
    assert (reason is not None) == repeated
    assert not repeated or "mode=the other" in reason


def test_another_size_or_baseline_does_not_repeat_a_case() -> None:
    asked = case(variant=Variant(REDUCED, "fp32"))
    for changes in ({"shape_json": '{"batch":3}'}, {"baseline": None}, {"threads": 7}):
        other = case(variant=Variant(replace(REDUCED, compile="default"), "fp32"))
        assert same_kernels(asked, CPU, {other.case_id: "compile"})
        assert not same_kernels(asked, CPU, {replace(other, **changes).case_id: "compile"})


@pytest.mark.parametrize(
    ("compile_", "device", "other"),
    [
        ("max-autotune-no-cudagraphs", CPU, "default"),
        ("max-autotune", CPU, "default"),
        ("max-autotune-no-cudagraphs", H100, "default"),
        ("max-autotune", H100, "reduce-overhead"),
    ],
)
def test_a_mode_that_tunes_nothing_repeats_the_one_without_tuning(
    compile_: str, device: DeviceFacts, other: str
) -> None:
    asked, without = (
        case(variant=Variant(replace(TUNED, compile=each), "fp32")) for each in (compile_, other)
    )
    assert untuned(asked, device, {without.case_id: "that", asked.case_id: "itself"}) == "that"
    assert untuned(asked, device, {asked.case_id: "itself"}) is None
    assert untuned(without, device, {without.case_id: "that"}) is None

"""Which combinations are refused, on which device, and the suggested alternative."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modescope.bench.records.cases import Inference, Mode, PhaseOptions, Training, Variant
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.refusals import no_cache, refusal, same_kernels
from tests.helpers import made_up_records
from tests.helpers.made_up_records import AMP, COMPILE, CPU, EAGER, H100, V100, case

GRAPH = Mode("cuda-graph", "inference_mode", autocast=False, compile="none", graph=True)
COMPILED_GRAPH = replace(GRAPH, name="compile-cuda-graph", compile="default")
TWO_GRAPHS = replace(GRAPH, name="reduce-overhead[graph=true]", compile="reduce-overhead")
REDUCED = replace(TWO_GRAPHS, name="reduce-overhead", graph=False)

AOTI = Mode("aoti", "inference_mode", compile="aoti")
DYNAMIC = replace(COMPILE, name="compile[dynamic=true]", dynamic=True)

BLOCKS = (("regions", "blocks"),)

TABLE = [
    # mode, dtype, device, part of the remedy
    (EAGER, "fp16", CPU, None),
    (EAGER, "tf32", CPU, "dtype=fp32"),
    (EAGER, "tf32", replace(V100, capability=(7, 5)), "dtype=fp32"),
    (EAGER, "tf32", replace(V100, capability=(8, 0)), None),
    (AMP, "fp16", H100, None),
    (AMP, "tf32", H100, "dtype=bf16"),
    (REDUCED, "fp32", CPU, None),  # runs, and its record notes that there are no graphs
    (replace(DYNAMIC, compile="none"), "fp32", CPU, "leave out mode.dynamic"),
    (replace(COMPILE, axes=BLOCKS), "fp32", CPU, None),
    (replace(EAGER, axes=BLOCKS), "fp32", CPU, "mode=regional"),
    (GRAPH, "fp32", CPU, "mode=compile"),
    (COMPILED_GRAPH, "bf16", H100, None),
    (TWO_GRAPHS, "fp32", H100, "leave out mode.graph"),
    (TWO_GRAPHS, "fp32", CPU, "mode=compile"),
    (AOTI, "bf16", CPU, None),
    (replace(AOTI, autocast=True), "bf16", CPU, "dtype=bf16 with mode=aoti"),
    (replace(AOTI, graph=True), "fp32", H100, "leave out mode.graph=true"),
    (replace(AOTI, grad="enabled"), "fp32", CPU, "leave out mode.grad=enabled"),
    (replace(AOTI, grad="no_grad"), "fp32", CPU, None),
    (replace(AOTI, dynamic=False), "fp32", CPU, "leave out mode.dynamic"),
    (replace(AOTI, options='{"max_fusion_size":8}'), "fp32", CPU, "leave them out"),
]


FROZEN = replace(COMPILE, name="freezing", axes=(("freezing", True),))


@pytest.mark.parametrize(
    ("mode", "data", "remedy"),
    [
        (COMPILE, "cold_weights", None),
        (FROZEN, "warm", None),
        (FROZEN, "cold_weights", "data=cold_weights"),
        (AOTI, "cold", "data=cold"),
        (replace(COMPILE, backend="openvino"), "warm", None),
        (replace(COMPILE, backend="openvino"), "cold", "leave out data=cold or mode.backend"),
    ],
)
def test_copies_of_weights_that_cannot_be_evicted(
    mode: Mode, data: str, remedy: str | None
) -> None:
    asked = case(variant=Variant(mode, "fp32"), baseline=None, options=Inference(data=data))
    assert_refused(refusal(asked, CPU), remedy)


def assert_refused(found: str | None, remedy: str | None) -> None:
    assert (found is None) == (remedy is None)
    assert remedy is None or remedy in found


@pytest.mark.parametrize(("mode", "dtype", "device", "remedy"), TABLE)
def test_combinations_that_are_refused(
    mode: Mode, dtype: str, device: DeviceFacts, remedy: str | None
) -> None:
    asked = case(variant=Variant(mode, dtype), baseline=None)
    assert_refused(refusal(asked, device), remedy)


@pytest.mark.parametrize(
    ("dtype", "baseline", "device", "remedy"),
    [
        ("bf16", Variant(EAGER, "fp32"), CPU, None),
        ("tf32", Variant(EAGER, "tf32"), H100, None),
        ("tf32", Variant(EAGER, "fp32"), H100, "measure mode=tf32/eager"),
        ("fp32", Variant(EAGER, "tf32"), V100, "use baseline.dtype=fp32"),
        ("fp32", Variant(GRAPH, "fp32"), CPU, "use baseline.mode=compile"),
    ],
)
def test_a_baseline_can_be_refused(
    dtype: str, baseline: Variant, device: DeviceFacts, remedy: str | None
) -> None:
    asked = case(variant=Variant(COMPILE, dtype), baseline=baseline)
    assert_refused(refusal(asked, device), remedy)


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (Inference(), None),
        (Inference('{"seq":[2,3]}'), "use calls=repeat"),
        (Training(), "use mode=compile"),
    ],
)
def test_a_package_is_for_inference_at_one_size(options: PhaseOptions, remedy: str | None) -> None:
    asked = case(variant=Variant(AOTI, "fp32"), options=options)
    assert_refused(refusal(asked, CPU), remedy)


def test_a_package_is_no_baseline() -> None:
    asked = case(variant=Variant(COMPILE, "fp32"), baseline=Variant(AOTI, "fp32"))
    assert_refused(refusal(asked, CPU), "measure mode=aoti with another baseline.mode")


AOT = replace(COMPILE, compile="aot")


@pytest.mark.parametrize(
    ("mode", "options", "remedy"),
    [
        (AOT, Inference(), None),
        (replace(AOT, autocast=True, name="amp-compile"), Inference(), None),
        (replace(AOT, grad="enabled"), Inference(), None),
        (replace(AOT, options='{"max_fusion_size":8}'), Inference(), None),
        (AOT, Inference('{"seq":[2,3]}'), "use calls=repeat"),
        (AOT, Inference(data="cold"), "use mode=compile"),
        (replace(AOT, grad="enabled"), Training(), "use mode=compile"),
        (replace(AOT, axes=(("kernels", "mine"),)), Inference(), "leave out mode.kernels"),
    ],
)
def test_a_saved_function_knows_autocast_and_gradients(
    mode: Mode, options: PhaseOptions, remedy: str | None
) -> None:
    asked = case(variant=Variant(mode, "bf16"), baseline=None, options=options)
    assert_refused(refusal(asked, H100), remedy)


OF_KERNELS = replace(COMPILE, axes=(("kernels", "mine"),))
FIRST_SIZES = Inference('{"seq":[2,3]}')


@pytest.mark.parametrize(
    ("mode", "baseline", "options", "what"),
    [
        (COMPILE, EAGER, Inference(), None),
        (COMPILE, EAGER, Training(), "training"),
        (COMPILE, EAGER, FIRST_SIZES, "calls that vary"),
        (OF_KERNELS, EAGER, Inference(), "mode.kernels"),
        (EAGER, OF_KERNELS, Inference(), "mode.kernels"),
    ],
)
@pytest.mark.parametrize(
    ("cache", "starts", "asks"),
    [
        ("cold", 0, False),
        ("warm", 0, False),
        ("cold", 1, True),
        ("warm", 1, True),
        ("shipped", 0, True),
        ("precompiled", 0, True),
    ],
)
def test_starts_are_measured_for_inference_at_one_size(
    mode: Mode, baseline: Mode, options: PhaseOptions, what: str | None,
    cache: str, starts: int, asks: bool,
) -> None:  # fmt: skip
    plan = made_up_records.plan(compile_cache=cache, starts=starts)
    asked = case(variant=Variant(mode, "fp32"), baseline=Variant(baseline, "fp32"), options=options)
    assert_refused(no_cache(asked, plan), f"not for {what};" if what and asks else None)


NO_GRAD = replace(EAGER, name="no_grad", grad="no_grad")
FP32 = Variant(EAGER, "fp32")


@pytest.mark.parametrize(
    ("asked", "baseline", "options", "reason"),
    [
        (EAGER, FP32, Inference(), None),
        (NO_GRAD, FP32, Inference(), None),
        (EAGER, FP32, Training(), None),
        (EAGER, Variant(EAGER, "bf16"), Inference(), None),
        (COMPILE, FP32, Inference(), "compiled again"),
        (EAGER, Variant(COMPILE, "fp32"), Inference(), "compiled again"),
        (GRAPH, FP32, Inference(), "captured graph"),
        (EAGER, Variant(GRAPH, "fp32"), Inference(), "captured graph"),
        (EAGER, FP32, Inference('{"seq":[2,3]}'), "one pass"),
        (COMPILE, Variant(EAGER, "tf32"), Inference('{"seq":[2,3]}'), None),
    ],
)
def test_tf32_beside_another_dtype_only_where_it_can_be_switched(
    asked: Mode, baseline: Variant, options: PhaseOptions, reason: str | None
) -> None:
    mixed = case(variant=Variant(asked, "tf32"), baseline=baseline, options=options)
    found = refusal(mixed, H100)
    assert found is None if reason is None else reason in str(found)
    swapped = replace(mixed, variant=baseline, baseline=mixed.variant)
    assert (refusal(swapped, H100) is None) == (reason is None)


TUNED = replace(REDUCED, name="max-autotune", compile="max-autotune")
TUNED_ALONE = replace(TUNED, name="tuned", compile="max-autotune-no-cudagraphs")


@pytest.mark.parametrize(
    ("mode", "present", "device", "repeated"),
    [
        (REDUCED, COMPILE, CPU, True),
        (TUNED, TUNED_ALONE, CPU, True),
        (REDUCED, COMPILE, H100, False),
        (REDUCED, TUNED_ALONE, CPU, False),
        (replace(REDUCED, dynamic=True), COMPILE, CPU, False),
    ],
)
def test_the_same_kernels_are_measured_once_in_a_sweep(
    mode: Mode, present: Mode, device: DeviceFacts, repeated: bool
) -> None:
    asked, other = (case(variant=Variant(each, "fp32")) for each in (mode, present))
    reason = same_kernels(asked, device, {asked.case_id: "asked", other.case_id: "the other"})
    assert (reason is not None) == repeated
    assert not repeated or "mode=the other" in reason


# Training, for which gradients are enabled

T_AMP, T_COMPILE, T_REDUCED, T_GRAPH, T_COMPILED_GRAPH = (
    replace(each, grad="enabled") for each in (AMP, COMPILE, REDUCED, GRAPH, COMPILED_GRAPH)
)
T_AMP_GRAPH = replace(T_AMP, name="amp-graph", graph=True)

ASKS_THE_HOST = "train.implementation=fused"

TRAINING = [
    # mode, dtype, training, part of the objection
    *((mode, "bf16", {}, None) for mode in (T_COMPILE, T_REDUCED, T_AMP_GRAPH, T_COMPILED_GRAPH)),
    (T_GRAPH, "fp32", {"optimizer": "adamw"}, None),
    (EAGER, "fp32", {"optimizer": "adamw", "capturable": True}, None),
    (EAGER, "fp32", {"capturable": False}, "train.optimizer=adamw"),
    (T_AMP_GRAPH, "fp16", {}, ASKS_THE_HOST),
    (T_AMP_GRAPH, "fp16", {"implementation": "fused"}, None),
    (T_AMP_GRAPH, "fp16", {"capture": "forward_backward"}, None),
    (T_AMP_GRAPH, "fp16", {"scaler": False}, None),
    (T_AMP_GRAPH, "bf16", {"scaler": True}, ASKS_THE_HOST),
    (EAGER, "fp16", {}, "mode=amp"),
    (T_COMPILED_GRAPH, "fp32", {"capture": "forward_backward"}, "train.capture=step"),
    (EAGER, "fp32", {"capture": "forward_backward"}, "use mode=cuda-graph"),
    (T_COMPILE, "fp32", {"activation_memory_budget": 0.0}, None),
    (T_GRAPH, "fp32", {"activation_memory_budget": 0.5}, "mode=compile"),
    (replace(EAGER, grad="inference_mode"), "fp32", {}, "mode=eager, amp or compile"),
]


@pytest.mark.parametrize(("mode", "dtype", "options", "remedy"), TRAINING)
def test_combinations_of_training_on_a_gpu_that_are_refused(
    mode: Mode, dtype: str, options: dict[str, Any], remedy: str | None
) -> None:
    asked = case(variant=Variant(mode, dtype), baseline=None, options=Training(**options))
    assert_refused(refusal(asked, H100), remedy)


def test_a_baseline_must_be_able_to_train_too() -> None:
    asked = case(variant=Variant(T_COMPILE, "fp32"), options=Training())
    no_grad = Variant(replace(EAGER, grad="no_grad"), "fp32")
    assert "baseline.mode=eager" in refusal(replace(asked, baseline=no_grad), CPU)
    fp16 = replace(asked, baseline=Variant(EAGER, "fp16"))
    assert "baseline.dtype=bf16" in refusal(fp16, CPU)
    scaled = case(
        variant=Variant(T_AMP, "fp16"), baseline=Variant(T_AMP_GRAPH, "fp16"), options=Training()
    )
    assert refusal(scaled, H100).startswith("the baseline amp-graph: GradScaler")
    assert refusal(replace(scaled, options=Training(implementation="fused")), H100) is None
    options = Training(activation_memory_budget=0.5)  # without effect on the baseline
    assert refusal(replace(asked, options=options), CPU) is None

"""Combinations of training on a GPU that are refused, by facts about the device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modescope.bench.records.cases import Mode, Training, Variant
from modescope.bench.refusals import refusal
from tests.helpers.made_up_records import CPU, EAGER, H100, case

AMP = replace(EAGER, name="amp", autocast=True)
COMPILE = replace(EAGER, name="compile", compile="default")
REDUCED = replace(EAGER, name="reduce-overhead", compile="reduce-overhead")
GRAPH = replace(EAGER, name="cuda-graph", graph=True)
AMP_GRAPH = replace(AMP, name="cuda-graph[autocast=true]", graph=True)
COMPILED_GRAPH = replace(COMPILE, name="compile-cuda-graph", graph=True)

ASKS_THE_HOST = "train.implementation=fused"

TABLE = [
    # mode, dtype, training, part of the objection
    *((mode, "fp32", {}, None) for mode in (EAGER, COMPILE, REDUCED, GRAPH, COMPILED_GRAPH)),
    *((mode, "bf16", {}, None) for mode in (EAGER, AMP, GRAPH, AMP_GRAPH)),
    (GRAPH, "fp32", {"optimizer": "adamw"}, None),
    (GRAPH, "fp32", {"optimizer": "adamw", "capturable": True}, None),
    (EAGER, "fp32", {"optimizer": "adamw", "capturable": True}, None),
    (GRAPH, "fp32", {"optimizer": "adamw", "capturable": False}, "leave train.capturable out"),
    (
        GRAPH,
        "fp32",
        {"optimizer": "adamw", "capturable": False, "capture": "forward_backward"},
        None,
    ),
    (EAGER, "fp32", {"optimizer": "adamw", "capturable": False}, None),
    (GRAPH, "fp32", {"capturable": True}, "train.optimizer=adamw"),
    (AMP, "fp16", {}, None),
    (AMP_GRAPH, "fp16", {}, ASKS_THE_HOST),
    (AMP_GRAPH, "fp16", {"optimizer": "adamw"}, ASKS_THE_HOST),
    (AMP_GRAPH, "fp16", {"implementation": "foreach"}, ASKS_THE_HOST),
    (AMP_GRAPH, "fp16", {"implementation": "fused"}, None),
    (AMP_GRAPH, "fp16", {"optimizer": "adamw", "implementation": "fused"}, None),
    (AMP_GRAPH, "fp16", {"capture": "forward_backward"}, None),
    (AMP_GRAPH, "fp16", {"scaler": False}, None),
    (AMP_GRAPH, "bf16", {"scaler": True}, ASKS_THE_HOST),
    (GRAPH, "fp16", {}, "mode=amp"),
    (GRAPH, "fp32", {"capture": "forward_backward"}, None),
    (AMP_GRAPH, "bf16", {"capture": "forward_backward", "checkpoint": "children"}, None),
    (COMPILED_GRAPH, "fp32", {"capture": "forward_backward"}, "train.capture=step"),
    (REDUCED, "fp32", {"capture": "forward_backward"}, "use mode=cuda-graph"),
    (EAGER, "fp32", {"capture": "forward_backward"}, "use mode=cuda-graph"),
    (COMPILED_GRAPH, "fp32", {"activation_memory_budget": 0.5}, None),
    (GRAPH, "fp32", {"activation_memory_budget": 0.5}, "mode=compile"),
    (replace(GRAPH, grad="no_grad"), "fp32", {}, "mode=eager, amp or compile"),
    (replace(EAGER, grad="inference_mode"), "fp32", {}, "mode=eager, amp or compile"),
    (EAGER, "fp16", {}, "mode=amp"),
    (COMPILE, "fp16", {"scaler": True}, "mode=amp"),
    (EAGER, "fp32", {"capturable": False}, "train.optimizer=adamw"),
    (EAGER, "fp32", {"activation_memory_budget": 0.5}, "mode=compile"),
    (COMPILE, "fp32", {"activation_memory_budget": 0.0}, None),
    (COMPILE, "fp32", {"checkpoint": "children"}, None),
]


@pytest.mark.parametrize(
    ("mode", "dtype", "options", "part"),
    TABLE,
    ids=[f"{mode.name}-{dtype}-{options}" for mode, dtype, options, _ in TABLE],
)
def test_combinations_of_training_on_a_gpu_that_are_refused(
    mode: Mode, dtype: str, options: dict[str, Any], part: str | None
) -> None:
    asked = case(variant=Variant(mode, dtype), baseline=None, options=Training(**options))
    found = refusal(asked, H100)
    assert (found is None) == (part is None)
    assert part is None or part in found


@pytest.mark.parametrize("mode", [GRAPH, COMPILED_GRAPH, AMP_GRAPH])
def test_a_cpu_captures_no_step(mode: Mode) -> None:
    asked = case(variant=Variant(mode, "bf16"), baseline=None, options=Training())
    assert "mode=compile" in refusal(asked, CPU)


def test_a_capturable_optimizer_needs_a_gpu() -> None:
    options = Training(optimizer="adamw", capturable=True)
    asked = case(variant=Variant(EAGER, "fp32"), baseline=None, options=options)
    assert "leave it out" in refusal(asked, CPU)


def test_a_baseline_must_be_able_to_train_too() -> None:
    asked = case(variant=Variant(COMPILE, "fp32"), options=Training())
    no_grad = Variant(replace(EAGER, grad="no_grad"), "fp32")
    assert "baseline.mode=eager" in refusal(replace(asked, baseline=no_grad), CPU)
    fp16 = replace(asked, baseline=Variant(EAGER, "fp16"))
    assert "baseline.dtype=bf16" in refusal(fp16, CPU)


def test_options_without_effect_on_the_baseline_are_accepted() -> None:
    options = Training(activation_memory_budget=0.5)
    asked = case(variant=Variant(COMPILE, "fp32"), baseline=Variant(EAGER, "fp32"), options=options)
    assert refusal(asked, CPU) is None


def test_a_captured_baseline_follows_the_same_rules() -> None:
    asked = case(
        variant=Variant(AMP, "fp16"), baseline=Variant(AMP_GRAPH, "fp16"), options=Training()
    )
    assert refusal(asked, H100).startswith("the baseline cuda-graph[autocast=true]: GradScaler")
    fused = replace(asked, options=Training(implementation="fused"))
    assert refusal(fused, H100) is None

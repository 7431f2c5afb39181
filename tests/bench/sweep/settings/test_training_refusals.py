"""Combinations of training on a GPU that are refused, by facts about the device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modescope.bench.records.cases import Mode, Training, Variant
from modescope.bench.sweep.refusals import refusal
from tests.helpers.made_up_records import CPU, EAGER, H100, case

AMP = replace(EAGER, name="amp", autocast=True)
COMPILE = replace(EAGER, name="compile", compile="default")
REDUCED = replace(EAGER, name="reduce-overhead", compile="reduce-overhead")
GRAPH = replace(EAGER, name="cuda-graph", graph=True)
AMP_GRAPH = replace(AMP, name="cuda-graph[autocast=true]", graph=True)
COMPILED_GRAPH = replace(COMPILE, name="compile-cuda-graph", graph=True)

ASKS_THE_HOST = (
    "add train.implementation=fused, which decides on the device, or leave the optimizer out of "
    "the graph with train.capture=forward_backward"
)

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
    (GRAPH, "fp32", {"capturable": True}, "train.capturable is for optimizers that count"),
    (AMP, "fp16", {}, None),
    (AMP_GRAPH, "fp16", {}, ASKS_THE_HOST),
    (AMP_GRAPH, "fp16", {"optimizer": "adamw"}, ASKS_THE_HOST),
    (AMP_GRAPH, "fp16", {"implementation": "foreach"}, ASKS_THE_HOST),
    (AMP_GRAPH, "fp16", {"implementation": "fused"}, None),
    (AMP_GRAPH, "fp16", {"optimizer": "adamw", "implementation": "fused"}, None),
    (AMP_GRAPH, "fp16", {"capture": "forward_backward"}, None),
    (AMP_GRAPH, "fp16", {"scaler": False}, None),
    (AMP_GRAPH, "bf16", {"scaler": True}, ASKS_THE_HOST),
    (GRAPH, "fp16", {}, "small gradients of fp16 weights vanish"),
    (GRAPH, "fp32", {"capture": "forward_backward"}, None),
    (AMP_GRAPH, "bf16", {"capture": "forward_backward", "checkpoint": "children"}, None),
    (COMPILED_GRAPH, "fp32", {"capture": "forward_backward"}, "does not take compiled modules"),
    (REDUCED, "fp32", {"capture": "forward_backward"}, "use mode=cuda-graph"),
    (EAGER, "fp32", {"capture": "forward_backward"}, "use mode=cuda-graph"),
    (COMPILED_GRAPH, "fp32", {"activation_memory_budget": 0.5}, None),
    (GRAPH, "fp32", {"activation_memory_budget": 0.5}, "does not compile"),
    (replace(GRAPH, grad="no_grad"), "fp32", {}, "under no_grad no gradient is recorded"),
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
    assert refusal(asked, CPU).startswith("a CUDA graph needs an NVIDIA GPU")


def test_a_captured_baseline_follows_the_same_rules() -> None:
    asked = case(
        variant=Variant(AMP, "fp16"), baseline=Variant(AMP_GRAPH, "fp16"), options=Training()
    )
    assert refusal(asked, H100).startswith("the baseline cuda-graph[autocast=true]: GradScaler")
    fused = replace(asked, options=Training(implementation="fused"))
    assert refusal(fused, H100) is None

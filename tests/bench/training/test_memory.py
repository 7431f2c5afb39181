"""Bytes of a training step worked out by hand, in eager: what compiled code keeps is elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from bench import isolation, modes
from bench.devices import Cpu
from bench.entrant import enter
from bench.findings import Memory
from bench.memory import reading
from bench.memory.allocators import CpuAllocator, Pools
from bench.records import Result, Training, Variant
from bench.subject import Subject
from models import mlp
from tests import learners, probes
from tests.learners import EAGER, GRAPH, Graphs, built, small_mlp, subject
from tests.probes import LAYERS_HIDDEN, LAYERS_ROWS, WIDTH, smoke, two_layers, variant

FLOAT, HALF = 4, 2
HIDDEN, OUT, IN = LAYERS_ROWS * LAYERS_HIDDEN, LAYERS_ROWS * WIDTH, LAYERS_ROWS * WIDTH
SECOND_WEIGHT = LAYERS_HIDDEN * WIDTH
WEIGHTS = 2 * WIDTH * LAYERS_HIDDEN + LAYERS_HIDDEN + WIDTH
PARAMETERS = 4
AMP = variant("bf16", autocast=True)


def read(of: Subject, asked: Variant = EAGER, **options: Any) -> Memory:
    return reading.read(built(of, asked, **options), asked, CpuAllocator())


def test_two_layers_in_training() -> None:
    """GELU keeps what it is given, the second layer what GELU returned, the loss the output.

    The first layer's input and the targets are there anyway.
    """
    found = read(subject(two_layers))
    assert found.saved_activation_bytes == FLOAT * (2 * HIDDEN + OUT)
    assert found.weights_bytes == found.gradient_bytes == FLOAT * WEIGHTS
    assert found.input_bytes == FLOAT * (IN + OUT)
    assert found.optimizer_state_bytes == 0
    assert found.step_left_bytes == 0
    assert found.memory_note is None


def test_casted_copies_that_backward_needs_are_saved_too() -> None:
    """Of the input and of the second weight; the loss casts the output back and keeps that.

    The first weight's is not needed, as nobody wants the gradient of the input.
    """
    found = read(subject(two_layers), AMP)
    activations = HALF * (2 * HIDDEN + IN) + FLOAT * OUT
    assert found.saved_activation_bytes == activations + HALF * SECOND_WEIGHT
    assert found.autocast_copy_bytes == HALF * WEIGHTS
    assert found.gradient_bytes == FLOAT * WEIGHTS


def test_half_the_weights_half_of_everything() -> None:
    found = read(subject(two_layers), variant("bf16"))
    assert found.saved_activation_bytes == HALF * (2 * HIDDEN + OUT)
    assert found.weights_bytes == found.gradient_bytes == HALF * WEIGHTS


@pytest.mark.parametrize("implementation", ["for_loop", "foreach", "fused"])
def test_adamw_keeps_two_moments_and_counts_steps(implementation: str) -> None:
    found = read(subject(two_layers), optimizer="adamw", implementation=implementation)
    assert found.optimizer_state_bytes == FLOAT * (2 * WEIGHTS + PARAMETERS)


def test_gradients_of_what_is_trained_alone() -> None:
    width = learners.WIDTH
    found = read(subject(learners.frozen), optimizer="adamw")
    assert found.gradient_bytes == FLOAT * (width + width * width + width)
    assert found.optimizer_state_bytes == 2 * found.gradient_bytes + 3 * FLOAT
    assert read(subject(learners.partly_used)).gradient_bytes == FLOAT * (width * width + width)


def test_recomputed_activations_are_not_kept() -> None:
    """Three layers: two with a GELU, each of them a child."""
    layer = FLOAT * 4 * 16
    of = subject(lambda: mlp.build(batch=4, width=16, depth=3))
    saved = {
        checkpoint: read(of, checkpoint=checkpoint).saved_activation_bytes
        for checkpoint in ("none", "children", "model")
    }
    output = layer
    assert saved == {
        "none": 2 * 2 * layer + output,  # into and out of each GELU
        "children": 2 * layer + output,  # into each child but the first
        "model": output,
    }


def test_an_entrant_recomputes_what_it_is_asked_to() -> None:
    asked = learners.case(small_mlp, checkpoint="model")
    of = subject(small_mlp)
    for each in (asked.variant, asked.baseline):
        own = enter(of, each, asked, Cpu(), smoke()).built
        assert reading.saved_activation_bytes(own.live, own.subject) == FLOAT * 4 * 16


def test_activations_show_as_far_as_they_take_more_than_gradients() -> None:
    """Those of the step before are dropped first, so a small step rises above nothing."""
    small, large = (
        read(subject(lambda rows=rows: (two_layers()[0], (torch.randn(rows, WIDTH),))))
        for rows in (1, 512)
    )
    assert small.saved_activation_bytes < small.gradient_bytes
    assert small.step_peak_bytes < small.gradient_bytes
    above = large.saved_activation_bytes - large.gradient_bytes
    assert (
        above
        <= large.step_peak_bytes
        <= above + large.gradient_bytes + 2 * FLOAT * 512 * (LAYERS_HIDDEN + WIDTH)
    )


@pytest.mark.parametrize("asked", [EAGER, variant("fp16", autocast=True)], ids=["fp32", "fp16"])
def test_reading_leaves_everything_as_it_was(asked: Variant) -> None:
    made = built(subject(learners.normalised), asked, optimizer="adamw")
    before, start = learners.everything(made), made.trainer.start
    reading.read(made, asked, CpuAllocator())
    assert learners.equal(before, learners.everything(made))
    assert made.trainer.start == start
    if made.trainer.scaler:
        assert made.trainer.scaler.get_scale() == start.scale


class OfAGpu(CpuAllocator):
    def pools(self) -> Pools:
        return Pools(reserved_bytes=100, graph_pool_bytes=70, graph_pool_live_bytes=7)


def test_what_lies_in_the_pool_of_graphs_is_unknown() -> None:
    options = Training(capture="forward_backward")
    made = modes.build(subject(two_layers), GRAPH, True, Graphs(), options)
    made.step()
    found = reading.read(made, GRAPH, OfAGpu())
    assert found.saved_activation_bytes is found.autocast_copy_bytes is None
    assert found.memory_note == reading.GRAPHED
    assert (found.gradient_bytes, found.graph_pool_bytes) == (FLOAT * WEIGHTS, 70)


def test_nothing_of_the_harness_is_left_in_the_process() -> None:
    """Neither the exam, nor the baseline, nor what training starts from."""
    asked = learners.case(two_layers, optimizer="adamw")
    target = f"{probes.__name__}:two_layers"
    asked = replace(asked, model=replace(asked.model, target=target))
    memory_alone = replace(smoke(), memory=True)
    outcome = isolation.call("bench.runner:run", asked, memory_alone, timeout_s=120)
    assert outcome.kind == "returned", outcome.reason
    result: Result = outcome.value
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    state = FLOAT * (2 * WEIGHTS + PARAMETERS)
    assert found.optimizer_state_bytes == state
    held = FLOAT * WEIGHTS + FLOAT * (IN + OUT) + FLOAT * WEIGHTS + state
    assert found.resident_bytes == held

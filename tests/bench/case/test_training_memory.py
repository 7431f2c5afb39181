"""Bytes of a training step worked out by hand, in eager; compiled code is in test_compiled.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.case import memory
from modescope.bench.case.first_call import enter
from modescope.bench.devices.allocators import CpuAllocator, Pools
from modescope.bench.devices.devices import Cpu
from modescope.bench.records.cases import Training, Variant
from modescope.bench.records.columns import Memory
from modescope.bench.steps import modes
from modescope.bench.steps.phases import TrainingPhase
from modescope.bench.steps.subject import Subject
from modescope.bench.steps.training.trainer import trainer_of
from modescope.models import mlp
from tests.helpers import probe_models, trained_models
from tests.helpers.child_runs import findings_in_child
from tests.helpers.probe_models import LAYERS_HIDDEN, LAYERS_ROWS, WIDTH, smoke, two_layers, variant
from tests.helpers.trained_models import EAGER, GRAPH, Graphs, built, small_mlp, subject

pytestmark = pytest.mark.usefixtures("one_thread")

FLOAT, HALF = 4, 2
HIDDEN, OUT, IN = LAYERS_ROWS * LAYERS_HIDDEN, LAYERS_ROWS * WIDTH, LAYERS_ROWS * WIDTH
SECOND_WEIGHT = LAYERS_HIDDEN * WIDTH
WEIGHTS = 2 * WIDTH * LAYERS_HIDDEN + LAYERS_HIDDEN + WIDTH
PARAMETERS = 4
AMP = variant("bf16", autocast=True)


def read(of: Subject, asked: Variant = EAGER, **options: Any) -> Memory:
    return memory.read(built(of, asked, **options), asked, CpuAllocator())


def test_two_layers_in_training() -> None:
    """GELU saves its input, the second layer GELU's output, the loss the model's output.

    The model's input and the targets exist anyway and are not counted.
    """
    found = read(subject(two_layers))
    assert found.saved_activation_bytes == FLOAT * (2 * HIDDEN + OUT)
    assert found.weights_bytes == found.gradient_bytes == FLOAT * WEIGHTS
    assert found.input_bytes == FLOAT * (IN + OUT)
    assert found.optimizer_state_bytes == 0
    assert found.step_left_bytes == 0
    assert found.memory_note is None


def test_casts_needed_for_backward_are_saved_activations() -> None:
    """Casts of the input and of the second weight; the loss casts the output back and saves that.

    The cast of the first weight is not needed, as the input has no gradient.
    """
    found = read(subject(two_layers), AMP)
    activations = HALF * (2 * HIDDEN + IN) + FLOAT * OUT
    assert found.saved_activation_bytes == activations + HALF * SECOND_WEIGHT
    assert found.autocast_copy_bytes == HALF * WEIGHTS
    assert found.gradient_bytes == FLOAT * WEIGHTS


def test_half_the_weights_take_half_the_memory() -> None:
    found = read(subject(two_layers), variant("bf16"))
    assert found.saved_activation_bytes == HALF * (2 * HIDDEN + OUT)
    assert found.weights_bytes == found.gradient_bytes == HALF * WEIGHTS


@pytest.mark.parametrize("implementation", ["for_loop", "foreach", "fused"])
def test_adamw_state_has_two_moments_and_step_counts(implementation: str) -> None:
    found = read(subject(two_layers), optimizer="adamw", implementation=implementation)
    assert found.optimizer_state_bytes == FLOAT * (2 * WEIGHTS + PARAMETERS)


def test_gradients_are_of_trained_parameters_only() -> None:
    width = trained_models.WIDTH
    found = read(subject(trained_models.frozen), optimizer="adamw")
    assert found.gradient_bytes == FLOAT * (width + width * width + width)
    assert found.optimizer_state_bytes == 2 * found.gradient_bytes + 3 * FLOAT
    assert read(subject(trained_models.partly_used)).gradient_bytes == FLOAT * (
        width * width + width
    )


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


def test_a_timed_variant_recomputes_as_configured() -> None:
    asked = trained_models.case(small_mlp, checkpoint="model")
    of = subject(small_mlp)
    for each in (asked.variant, asked.baseline):
        own = enter(of, each, asked, Cpu(), smoke()).built
        assert memory.saved_activation_bytes(own.live, own.subject) == FLOAT * 4 * 16


def test_activations_count_in_the_peak_beyond_the_gradients() -> None:
    """Gradients of the step before are freed first, so a small step does not exceed them."""
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
def test_reading_memory_leaves_model_and_optimizer_unchanged(asked: Variant) -> None:
    made = built(subject(trained_models.normalised), asked, optimizer="adamw")
    before, start = trained_models.everything(made), trainer_of(made).start
    memory.read(made, asked, CpuAllocator())
    assert trained_models.equal(before, trained_models.everything(made))
    assert trainer_of(made).start == start
    if trainer_of(made).scaler:
        assert trainer_of(made).scaler.get_scale() == start.scale


class OfAGpu(CpuAllocator):
    def pools(self) -> Pools:
        return Pools(reserved_bytes=100, graph_pool_bytes=70, graph_pool_live_bytes=7)


def test_activations_inside_graph_pools_are_unknown() -> None:
    options = Training(capture="forward_backward")
    made = modes.build(subject(two_layers), GRAPH, True, Graphs(), TrainingPhase(options))
    made.step()
    found = memory.read(made, GRAPH, OfAGpu())
    assert found.saved_activation_bytes is found.autocast_copy_bytes is None
    assert found.memory_note == memory.GRAPHED
    assert (found.gradient_bytes, found.graph_pool_bytes) == (FLOAT * WEIGHTS, 70)


def test_only_model_and_training_state_are_in_memory() -> None:
    """The check, the baseline and the copy of the starting state are freed."""
    asked = trained_models.case(two_layers, optimizer="adamw")
    target = f"{probe_models.__name__}:two_layers"
    asked = replace(asked, model=replace(asked.model, target=target))
    found = findings_in_child(asked, replace(smoke(), memory=True))
    state = FLOAT * (2 * WEIGHTS + PARAMETERS)
    assert found.optimizer_state_bytes == state
    held = FLOAT * WEIGHTS + FLOAT * (IN + OUT) + FLOAT * WEIGHTS + state
    assert found.resident_bytes == held

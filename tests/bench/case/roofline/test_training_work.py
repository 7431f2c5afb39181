"""FLOPs and bytes of a training step worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from modescope.bench.case.roofline import counting
from modescope.bench.records.columns import WorkCounts
from modescope.bench.steps.training.trainer import trainer_of
from modescope.models import mlp, transformer
from tests.helpers import trained_models
from tests.helpers.probe_models import Applies, variant
from tests.helpers.trained_models import EAGER, LEARNERS, built, subject

pytestmark = pytest.mark.usefixtures("one_thread")

FLOAT = 4


def counted(build: trained_models.Build, asked: Any = EAGER, **options: Any) -> WorkCounts:
    loss = options.get("loss", "mse")
    return counting.count(built(subject(build, loss), asked, **options))


ROWS, WIDTH, DEPTH = 8, 16, 3
OF_LAYER = 2 * ROWS * WIDTH * WIDTH
WEIGHTS = DEPTH * (WIDTH * WIDTH + WIDTH)
BATCH = 2 * ROWS * WIDTH  # inputs and targets


def layers() -> Any:
    return mlp.build(ROWS, WIDTH, DEPTH)


@pytest.mark.parametrize("asked", [EAGER, variant("bf16", autocast=True)], ids=["fp32", "amp"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_an_mlp_costs_three_times_its_forward_less_one_gradient(optimizer: str, asked: Any) -> None:
    """Each layer: forward, the gradient of its weight, and of its input but for the first."""
    found = counted(layers, asked, optimizer=optimizer)
    assert found.work_note is None
    assert found.flops == (3 * DEPTH - 1) * OF_LAYER


@pytest.mark.parametrize("implementation", ["for_loop", "foreach", "fused"])
@pytest.mark.parametrize(("optimizer", "kept"), [("sgd", 0), ("adamw", 2 * WEIGHTS + 2 * DEPTH)])
def test_trained_parameters_are_read_and_written(
    optimizer: str, kept: int, implementation: str
) -> None:
    """So are the optimizer's moments, and the step count of each parameter."""
    found = counted(layers, optimizer=optimizer, implementation=implementation)
    assert found.least_bytes == FLOAT * (BATCH + 2 * (WEIGHTS + kept) + 1)
    assert found.eager_bytes > found.least_bytes


def test_a_transformer_block() -> None:
    """Inputs have a gradient, too: that of the norm's parameters. Attention: 2 and 5 products."""
    batch, seq, width, heads = 2, 16, 32, 4
    found = counted(lambda: transformer.build(batch, seq, width, heads))
    products = 2 * batch * seq * 12 * width * width
    of_attention = 2 * batch * seq * seq * width
    assert found.work_note is None
    assert found.flops == 3 * products + (2 + 5) * of_attention


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_by_itself(is_causal: bool) -> None:
    batch, heads, seq, width = 2, 3, 8, 4

    def attend(weight: torch.Tensor, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * weight
        return {"loss": scaled_dot_product_attention(y, y, y, is_causal=is_causal).sum()}

    found = counted(
        lambda: (Applies(attend), (torch.randn(batch, heads, seq, width),)), loss="output"
    )
    assert found.flops == 7 * 2 * batch * heads * seq * seq * width


@pytest.mark.parametrize("name", LEARNERS)
def test_work_of_built_in_models_is_fully_known(name: str) -> None:
    for optimizer in ("sgd", "adamw"):
        assert counted(LEARNERS[name], optimizer=optimizer).work_note is None


def test_parameters_without_a_gradient_are_not_written() -> None:
    width, rows = trained_models.WIDTH, trained_models.ROWS
    weights = width * width + width
    assert counted(trained_models.partly_used).least_bytes == FLOAT * (
        2 * rows * width + 2 * weights + 1
    )


def test_recomputed_work_is_counted_again() -> None:
    """Everything that backward needs, which excludes the last product."""
    usual = (3 * DEPTH - 1) * OF_LAYER
    assert counted(layers, checkpoint="model").flops == usual + (DEPTH - 1) * OF_LAYER


def test_counting_leaves_model_and_inputs_unchanged() -> None:
    made = built(
        subject(trained_models.normalised), variant("fp16", autocast=True), optimizer="adamw"
    )
    before = trained_models.everything(made)
    counting.count(made)
    assert trained_models.equal(before, trained_models.everything(made))
    assert trainer_of(made).scaler.get_scale() == trainer_of(made).start.scale


def test_work_of_a_training_convolution() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten())
    found = counted(lambda: (net, (torch.randn(2, 3, 6, 6),)))
    assert found.flops == 2 * (2 * 2 * 4 * 4 * 4 * 3 * 9)

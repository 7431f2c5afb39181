"""Models of torchvision that take one image: for classification and for segmentation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from modescope.models.libraries.importing import check_name, check_pixels, library, refusals

MAXVIT = 32 * 7  # five halvings, then windows of 7 by 7


def build(name: str, batch: int, pixels: int) -> tuple[nn.Module, tuple[Tensor]]:
    """The model with random weights, and its input, (batch, 3, pixels, pixels).

    Raises:
        ValueError: no such architecture, torchvision is missing, or sizes do not fit.
    """
    offered = library("torchvision", extra="vision").models
    segmentation = offered.list_models(module=offered.segmentation)
    known = [*offered.list_models(module=offered), *segmentation]
    check_name("torchvision", name, known, kind="architecture that takes one image")
    options: dict[str, object] = {"weights": None}
    if name in segmentation:
        options["weights_backbone"] = None  # else those would be downloaded
    if name.startswith("vit_"):
        check_pixels(name, pixels, multiple=int(name.rpartition("_")[2]))  # vit_b_16: its patches
        options["image_size"] = pixels
    if name.startswith("maxvit_"):
        check_pixels(name, pixels, MAXVIT)
        options["input_size"] = (pixels, pixels)
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = True  # the default, which warns unless it is stated
    with refusals("torchvision", name, {"batch": batch, "pixels": pixels}):
        module: Any = offered.get_model(name, **options)
    module.allowed_sizes = _allowed(offered.get_model_weights(name), pixels)
    return module.train(), (torch.randn(batch, 3, pixels, pixels),)


def _allowed(weights: Any, pixels: int) -> str | None:
    """The least size, from the facts that come with the names of the trained weights.

    None where it is unknown, or at most `pixels`.
    """
    least = min((max(each.meta.get("min_size", (0,))) for each in weights), default=0)
    return f"torchvision asks for shape.pixels={least} or more" if least > pixels else None

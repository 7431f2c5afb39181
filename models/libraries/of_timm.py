"""Models of timm, by the names that `timm.list_models()` gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from modescope.models.libraries.importing import check_name, library, refusals


def build(name: str, batch: int, pixels: int) -> tuple[nn.Module, tuple[Tensor]]:
    """The model with random weights, and its input, (batch, channels, pixels, pixels).

    Models whose weights depend on the image's size are built for `pixels`.

    Raises:
        ValueError: no such architecture, timm is missing, or sizes do not fit.
    """
    timm = library("timm", extra="vision")
    check_name("timm", name, timm.list_models())
    with refusals("timm", name, {"batch": batch, "pixels": pixels}):
        module: Any = _created(timm.create_model, name, pixels)
    channels, *published = getattr(module, "pretrained_cfg", {}).get("input_size", (3,))
    if published:
        module.allowed_sizes = f"it was published with shape.pixels={published[-1]}"
    return module.train(), (torch.randn(batch, channels, pixels, pixels),)


def _created(create: Callable[..., Any], name: str, pixels: int) -> nn.Module:
    """The model for images of `pixels`; models for images of any size take no `img_size`."""
    module: nn.Module
    try:
        module = create(name, pretrained=False, img_size=pixels)
    except TypeError as error:
        if "img_size" not in str(error):
            raise
        module = create(name, pretrained=False)
    return module

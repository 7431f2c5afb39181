"""Models of torchvision that take one image: for classification and for segmentation."""

from __future__ import annotations

from torch import Tensor, nn, randn

from modescope.models.libraries import check_name, library, refusals


def build(name: str, batch: int, pixels: int) -> tuple[nn.Module, tuple[Tensor]]:
    """Builds the model with random weights, and its input, (batch, 3, pixels, pixels).

    Raises:
        ValueError: no such architecture, torchvision is missing, or sizes do not fit.
    """
    offered = library("torchvision", extra="vision").models
    segmentation = offered.list_models(module=offered.segmentation)
    check_name("torchvision", name, [*offered.list_models(module=offered), *segmentation])
    options: dict[str, object] = {"weights": None}
    if name in segmentation:
        options["weights_backbone"] = None  # else those would be downloaded
    if name.startswith("vit_"):
        options["image_size"] = pixels
    if name.startswith("maxvit_"):
        options["input_size"] = (pixels, pixels)
    with refusals("torchvision", name, {"batch": batch, "pixels": pixels}):
        module: nn.Module = offered.get_model(name, **options)
    return module.train(), (randn(batch, 3, pixels, pixels),)

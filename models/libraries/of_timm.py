"""Models of timm, by the names that `timm.list_models()` gives."""

from __future__ import annotations

from torch import Tensor, nn, randn

from modescope.models.libraries import check_name, library, refusals


def build(name: str, batch: int, pixels: int) -> tuple[nn.Module, tuple[Tensor]]:
    """Builds the model with random weights, and its input, (batch, channels, pixels, pixels).

    Models whose weights depend on the image's size are built for `pixels`.

    Raises:
        ValueError: no such architecture, timm is missing, or sizes do not fit.
    """
    timm = library("timm", extra="vision")
    check_name("timm", name, timm.list_models())
    with refusals("timm", name, {"batch": batch, "pixels": pixels}):
        try:
            module: nn.Module = timm.create_model(name, pretrained=False, img_size=pixels)
        except TypeError as error:
            if "img_size" not in str(error):
                raise
            module = timm.create_model(name, pretrained=False)  # it takes images of any size
    channels, *_ = getattr(module, "pretrained_cfg", {}).get("input_size", (3,))
    return module.train(), (randn(batch, channels, pixels, pixels),)

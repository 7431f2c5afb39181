"""Denoising networks of diffusers. A new one is a function and a line of `ARCHITECTURES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from modescope.models.libraries import check_heads, check_name, library, refusals

LATENT = 4  # channels of a latent image
STEPS = 1000  # of adding noise; a network is told the number of the step
CLASSES = 1000  # of images


@dataclass(frozen=True)
class Sizes:
    """The sizes of conf/model/diffusers.yaml."""

    batch: int
    pixels: int
    depth: int
    width: int
    heads: int


Built = tuple[nn.Module, dict[str, Tensor]]


def _unet(diffusers: Any, sizes: Sizes) -> Built:
    """A U-Net of two levels; the lower has half the resolution, twice the width, and attention."""
    module = diffusers.UNet2DModel(
        sample_size=sizes.pixels,
        in_channels=LATENT,
        out_channels=LATENT,
        layers_per_block=sizes.depth,
        block_out_channels=(sizes.width, 2 * sizes.width),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=2 * sizes.width // sizes.heads,
        norm_num_groups=sizes.heads,
    )
    return module, {"sample": _images(sizes), "timestep": _times(sizes)}


def _dit(diffusers: Any, sizes: Sizes) -> Built:
    """A transformer (DiT) over patches of 2 × 2; the class of the image is an input."""
    module = diffusers.DiTTransformer2DModel(
        num_attention_heads=sizes.heads,
        attention_head_dim=sizes.width // sizes.heads,
        in_channels=LATENT,
        out_channels=2 * LATENT,  # noise and its variance
        num_layers=sizes.depth,
        sample_size=sizes.pixels,
        patch_size=2,
        num_embeds_ada_norm=CLASSES,
    )
    return module, {
        "hidden_states": _images(sizes),
        "timestep": _times(sizes),
        "class_labels": torch.randint(0, CLASSES, (sizes.batch,)),
    }


def _images(sizes: Sizes) -> Tensor:
    return torch.randn(sizes.batch, LATENT, sizes.pixels, sizes.pixels)


def _times(sizes: Sizes) -> Tensor:
    return torch.randint(0, STEPS, (sizes.batch,))


ARCHITECTURES: dict[str, Callable[[Any, Sizes], Built]] = {"dit": _dit, "unet": _unet}


def build(name: str, batch: int, pixels: int, depth: int, width: int, heads: int) -> Built:
    """Builds a network for latent images, (batch, 4, pixels, pixels), and a dict of its inputs.

    Raises:
        ValueError: no such architecture, diffusers is missing, or sizes do not fit.
    """
    check_name("diffusers", name, ARCHITECTURES)
    check_heads(width, heads)
    sizes = Sizes(batch, pixels, depth, width, heads)
    diffusers = library("diffusers", extra="hf")
    with refusals("diffusers", name, asdict(sizes)):
        module, inputs = ARCHITECTURES[name](diffusers, sizes)
    return module.train(), inputs

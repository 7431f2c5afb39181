"""A model, `plain`, and implementations of it with kernels that a user might have written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from modescope.bench.records.cases import Kernels, Model, Variant
from tests.helpers.probe_models import Built, model, variant

WIDTH = 8
EPS = 1e-6


@torch.library.custom_op("modescope_kernel_tests::norm", mutates_args=())
def norm(x: Tensor, weight: Tensor) -> Tensor:
    return rms_norm(x, x.shape[-1:], weight, EPS)


@norm.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
    with torch.enable_grad():
        x, weight = (tensor.detach().requires_grad_() for tensor in ctx.saved_tensors)
        normed = rms_norm(x, x.shape[-1:], weight, EPS)
    return torch.autograd.grad(normed, (x, weight), gradient)


norm.register_autograd(_gradients, setup_context=_keep)

_COMPOSED = torch.library.Library("modescope_kernel_tests", "FRAGMENT")
_COMPOSED.define("composed(Tensor x, Tensor weight) -> Tensor")
_COMPOSED.impl(
    "composed",
    lambda x, weight: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight,
    "CompositeImplicitAutograd",
)


class Plain(nn.Module):
    """A product of what RMSNorm returns."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.product = nn.Linear(WIDTH, WIDTH)

    def norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * self.weight

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.product(self.norm(x))
        return result


class Mine(Plain):
    """Keeps its operator, as users do."""

    def __init__(self) -> None:
        super().__init__()
        self.operator = norm

    def norm(self, x: Tensor) -> Tensor:
        result: Tensor = self.operator(x, self.weight)
        return result


class Wrong(Mine):
    """One element of each row is half as large again."""

    def norm(self, x: Tensor) -> Tensor:
        rest, last = super().norm(x).split([WIDTH - 1, 1], -1)
        return torch.cat([rest, last * 1.5], -1)


class Slightly(Mine):
    """Wrong by less than bf16 rounds."""

    def norm(self, x: Tensor) -> Tensor:
        rest, last = super().norm(x).split([WIDTH - 1, 1], -1)
        return torch.cat([rest, last * 1.01], -1)


class OnlyHalf(Mine):
    def norm(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            raise TypeError("takes half precision")
        return super().norm(x)


class InHalf(Mine):
    """Computes in bf16, whatever it gets."""

    def norm(self, x: Tensor) -> Tensor:
        return super().norm(x.bfloat16().to(x.dtype))


class Overwrites(Mine):
    """Scales its argument in place, after its result is known."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = super().forward(x)
        x.data.mul_(1.01)  # as foreign code writes, without raising the version
        return result


class Composed(Plain):
    def norm(self, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.modescope_kernel_tests.composed(x, self.weight)
        return result


class Breaks(Mine):
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def norm(self, x: Tensor) -> Tensor:
        return super().norm(x)


class OnlyWithGradients(Mine):
    """Falls back to torch where no gradient is recorded."""

    def norm(self, x: Tensor) -> Tensor:
        return super().norm(x) if torch.is_grad_enabled() else Plain.norm(self, x)


class Larger(Mine):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(WIDTH))
        self.weight = nn.Parameter(torch.rand(WIDTH + 1))


def plain() -> Built:
    return Plain(), (torch.randn(4, WIDTH),)


def mine() -> Built:
    return Mine(), (torch.randn(4, WIDTH),)


def wrong() -> Built:
    return Wrong(), (torch.randn(4, WIDTH),)


def slightly() -> Built:
    return Slightly(), (torch.randn(4, WIDTH),)


def only_half() -> Built:
    return OnlyHalf(), (torch.randn(4, WIDTH),)


def in_half() -> Built:
    return InHalf(), (torch.randn(4, WIDTH),)


def overwrites() -> Built:
    return Overwrites(), (torch.randn(4, WIDTH),)


def composed() -> Built:
    return Composed(), (torch.randn(4, WIDTH),)


def breaks() -> Built:
    return Breaks(), (torch.randn(4, WIDTH),)


def larger() -> Built:
    return Larger(), (torch.randn(4, WIDTH),)


def guarded() -> Built:
    return OnlyWithGradients(), (torch.randn(4, WIDTH),)


_ONE = Mine()


def shared() -> Built:
    return _ONE, (torch.randn(4, WIDTH),)


def with_kernels(*names: str, of: Any = plain) -> Model:
    """The model `of` with these functions of this file as further implementations."""
    made = tuple(Kernels(name, f"{__name__}:{name}") for name in names)
    return replace(model(of), kernels=made)


def asked(name: str, **mode: Any) -> Variant:
    """A variant that calls the implementation `name`."""
    return variant(axes=(("kernels", name),), **mode)

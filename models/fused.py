"""One operator written by hand, after a product with a parameter that compile may fuse into it.

The operators are those of `modescope.models.kernels`, each in the module that has it in a language
model. An implementation changes neither parameters nor buffers.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import Tensor, nn

from modescope.models.kernels import Operators, cpp, plain

HEAD_WIDTH = 64  # of rope, as in Llama 3.2 1B
ROTARY_BASE = 10_000.0  # of the wavelengths (Su et al., 2021)
EPS = 1e-5

Built = tuple[nn.Module, tuple[Tensor, ...]]


class Scaled(nn.Module):
    """Multiplies the input by a parameter, (width,), before the operator."""

    def __init__(self, operators: Operators, width: int) -> None:
        super().__init__()
        self.operators = operators
        self.scale = nn.Parameter(0.5 + torch.rand(width))


class RmsNorm(Scaled):
    """The end of a layer of Llama, whose output is scaled and added to the residual, and a norm."""

    def __init__(self, operators: Operators, width: int) -> None:
        super().__init__(operators, width)
        self.weight = nn.Parameter(0.5 + torch.rand(width))

    def forward(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the norm and the next residual; all are (batch, seq, width)."""
        return self.operators.rmsnorm(x * self.scale, residual, self.weight, EPS)


class SwiGlu(Scaled):
    """The gate of Llama's MLP. Gate and up are the halves of one tensor, as one product makes."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns (batch, seq, width) for `x`, (batch, seq, 2 * width)."""
        gate, up = (x * self.scale).chunk(2, -1)
        return self.operators.swiglu(gate, up)


class Rope(Scaled):
    """Rotary positions of queries that are scaled before."""

    cos: Tensor
    sin: Tensor

    def __init__(self, operators: Operators, seq: int, width: int) -> None:
        super().__init__(operators, width)
        wavelengths = ROTARY_BASE ** (torch.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)
        angles = torch.arange(seq)[:, None] / wavelengths
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x: Tensor) -> Tensor:
        """Returns `x`, (batch, seq, width), with its heads rotated."""
        heads = (x * self.scale).unflatten(-1, (-1, HEAD_WIDTH))
        cos, sin = self.cos.to(heads.dtype), self.sin.to(heads.dtype)
        return self.operators.rope(heads, cos, sin).flatten(-2)


class LayerNormGelu(Scaled):
    """A layer norm and a GELU, as between two layers of a prediction head of BERT."""

    def __init__(self, operators: Operators, width: int) -> None:
        super().__init__(operators, width)
        self.weight = nn.Parameter(0.5 + torch.rand(width))
        self.bias = nn.Parameter(torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        """Returns (batch, seq, width) for `x` of that shape."""
        return self.operators.layernorm_gelu(x * self.scale, self.weight, self.bias, EPS)


class CrossEntropy(Scaled):
    """The loss of each token, of logits that are scaled by class."""

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Returns (batch, seq), for `logits`, (batch, seq, classes), and classes (batch, seq)."""
        rows = (logits * self.scale).flatten(0, 1)
        return self.operators.cross_entropy(rows, target.flatten()).view(target.shape)


def _rmsnorm(operators: Operators, batch: int, seq: int, width: int) -> Built:
    inputs = torch.randn(batch, seq, width), torch.randn(batch, seq, width)
    return RmsNorm(operators, width), inputs


def _swiglu(operators: Operators, batch: int, seq: int, width: int) -> Built:
    return SwiGlu(operators, 2 * width), (torch.randn(batch, seq, 2 * width),)


def _rope(operators: Operators, batch: int, seq: int, width: int) -> Built:
    if width % HEAD_WIDTH:
        raise ValueError(
            f"width={width} cannot be split into heads of {HEAD_WIDTH}: choose a width that is a "
            f"multiple of {HEAD_WIDTH}"
        )
    return Rope(operators, seq, width), (torch.randn(batch, seq, width),)


def _layernorm_gelu(operators: Operators, batch: int, seq: int, width: int) -> Built:
    return LayerNormGelu(operators, width), (torch.randn(batch, seq, width),)


def _cross_entropy(operators: Operators, batch: int, seq: int, width: int) -> Built:
    inputs = torch.randn(batch, seq, width), torch.randint(width, (batch, seq))
    return CrossEntropy(operators, width), inputs


MODULES: dict[str, Callable[[Operators, int, int, int], Built]] = {
    "rmsnorm": _rmsnorm,
    "swiglu": _swiglu,
    "rope": _rope,
    "layernorm_gelu": _layernorm_gelu,
    "cross_entropy": _cross_entropy,
}
"""Values of model.op -> a function of operators and sizes that builds the module and its inputs."""


def _triton() -> Operators:
    if not (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"):
        raise ValueError("kernels=triton needs an NVIDIA GPU, and torch sees none; use kernels=cpp")
    try:
        from modescope.models.kernels.of_triton import operators  # few have Triton
    except ModuleNotFoundError as error:
        raise ValueError(
            f"kernels=triton needs the package {error.name}, which is not installed: it comes with "
            "torch's builds for CUDA, and otherwise by pip install 'modescope[triton]'"
        ) from error
    return operators.load()


KERNELS: dict[str, Callable[[], Operators]] = {
    "torch": lambda: plain.OPERATORS,
    "cpp": cpp.load,
    "triton": _triton,
}
"""Implementation -> a function that returns its operators."""


def build(name: str, batch: int, seq: int, width: int, kernels: str = "torch") -> Built:
    """Builds the module of an operator of `MODULES`, with an implementation of `KERNELS`.

    `width` is that of the operator's result, or for cross_entropy the number of classes. `batch`
    and `seq` give batch * seq rows.

    Returns:
        The module and its inputs, (batch, seq, ...) each; for rmsnorm x and residual, for
        cross_entropy logits and classes.

    Raises:
        ValueError: no such operator or implementation, or sizes do not fit; there is no compiler
            for cpp, or no NVIDIA GPU or no package for triton.
    """
    for key, value, known in (("op", name, MODULES), ("kernels", kernels, KERNELS)):
        if value not in known:
            raise ValueError(f"model=fused has no {key}={value}, only {', '.join(known)}")
    return MODULES[name](KERNELS[kernels](), batch, seq, width)


def build_cpp(name: str, batch: int, seq: int, width: int) -> Built:
    """As `build`, with operators in C++ for a CPU."""
    return build(name, batch, seq, width, kernels="cpp")


def build_triton(name: str, batch: int, seq: int, width: int) -> Built:
    """As `build`, with operators in Triton for a GPU."""
    return build(name, batch, seq, width, kernels="triton")

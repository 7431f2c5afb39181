"""Fewer bits: torchao replaces the weights of linear layers by integers or fp8 numbers and scales.

What it makes calls itself fp32 or bf16, and as large as before. So the proof is what the weights
are made of, and which operators multiply them. The command line reads this file without torch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from modescope.bench.records.cases import Mode, Variant
from modescope.bench.records.columns.quantized import Quantized

if TYPE_CHECKING:
    import torch

    from modescope.bench.model.subject import Subject
    from modescope.bench.records.environment import DeviceFacts

FULL = "none"
"""The value of `mode.quantize` that leaves the weights as they are."""

NO_LINEAR = "mode.quantize is for linear layers (torch.nn.Linear), and this model has none"

OTHER = (
    "mode.quantize is for weights in fp32, bf16 or fp16 that are plain tensors, and some linear "
    "layers of this model have others ({what})"
)

COMPUTED = (
    "mode.quantize replaces weights, and some of this model's linear layers compute theirs in each "
    "call (torch.nn.utils: parametrize, weight_norm, spectral_norm); make plain ones by "
    "remove_parametrizations, remove_weight_norm or remove_spectral_norm"
)

MISSING = "quantize={name} needs torchao: pip install 'modescope[quant]'"

NEEDS = "quantize={name} needs {what}; use mode.quantize=int8-dynamic"


@dataclass(frozen=True)
class Quantizer:
    """How torchao gives weights fewer bits, how that is seen, and what it needs."""

    config: str  # class of torchao.quantization that asks for it
    weight: str  # class of the weights that it makes
    operators: tuple[str, ...] = ()
    """Parts of the names of operators, of which one multiplies inputs of as few bits; empty: inputs
    stay as they are, and the weights are widened for each product."""
    capability: tuple[int, int] | None = None  # least one of a GPU; None: a CPU will do
    package: str | None = None  # further one
    dtype: str | None = None  # the only one of inputs; None: any


QUANTIZERS = {
    "int8-dynamic": Quantizer(  # the latter is what oneDNN has for frozen code
        "Int8DynamicActivationInt8WeightConfig", "Int8Tensor", ("_int_mm", "qlinear_pointwise")
    ),
    "int8-weights": Quantizer("Int8WeightOnlyConfig", "Int8Tensor"),
    "fp8-dynamic": Quantizer(
        "Float8DynamicActivationFloat8WeightConfig", "Float8Tensor", ("_scaled_mm", "f8f8bf16"),
        capability=(8, 9),
    ),
    "int4-weights": Quantizer(
        "Int4WeightOnlyConfig", "Int4Tensor", capability=(9, 0), package="mslk", dtype="bf16"
    ),
}  # fmt: skip
"""The values of `mode.quantize` besides FULL."""


def is_asked(mode: Mode) -> bool:
    """Whether `mode` gives weights fewer bits."""
    return mode.quantize is not None


def is_widened(mode: Mode) -> bool:
    """Whether code with constant weights would hold those of `mode` with all bits."""
    return mode.quantize is not None and not QUANTIZERS[mode.quantize].operators


def _quantizer(variant: Variant) -> Quantizer:
    assert variant.mode.quantize is not None
    return QUANTIZERS[variant.mode.quantize]


def refusal(variant: Variant, device: DeviceFacts) -> str | None:
    """Says what `device`, the dtype or the installation lacks; None if nothing is known to be."""
    own, name = _quantizer(variant), variant.mode.quantize
    if find_spec("torchao") is None:
        return MISSING.format(name=name)
    if own.capability and (device.capability or (0, 0)) < own.capability:
        gpu = "{}.{}".format(*own.capability)
        what = f"an NVIDIA GPU of compute capability {gpu} or newer, and this runs on {device.name}"
        return NEEDS.format(name=name, what=what)
    if own.package and find_spec(own.package) is None:
        return NEEDS.format(name=name, what=f"the package {own.package}, which is not installed")
    if own.dtype not in (None, variant.dtype):
        what = f"inputs in {own.dtype} (dtype={own.dtype}), and these are in {variant.dtype}"
        return NEEDS.format(name=name, what=what)
    return None


def unfit(module: torch.nn.Module) -> str | None:
    """Says why weights of `module` cannot have fewer bits; None if they can."""
    import torch

    layers = [*_linears(module)]
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}.values()
    own = {id(tensor) for tensor in held}
    if any(id(layer.weight) not in own for layer in layers):
        return COMPUTED
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    for weight in (layer.weight for layer in layers):
        if hasattr(weight, "__tensor_flatten__"):  # such as one that has fewer bits already
            return OTHER.format(what=type(weight).__name__)
        if weight.dtype not in dtypes:
            return OTHER.format(what=str(weight.dtype).removeprefix("torch."))
    return None if layers else NO_LINEAR


def prepare(subject: Subject, variant: Variant) -> Subject:
    """Returns `subject` with fewer bits in the weights of its linear layers."""
    from torchao import quantization

    # torch's settings for all that the process compiles are left alone, the baseline's, too
    config = getattr(quantization, _quantizer(variant).config)(set_inductor_config=False)
    quantized = subject.change(lambda module: quantization.quantize_(module, config))
    return quantized.remember_state()


def code(variant: Variant, device_type: str) -> tuple[str, ...]:
    """Returns the lines of a user's program that do the same."""
    config = _quantizer(variant).config
    return (
        f"from torchao.quantization import {config}, quantize_\n\n"
        f"quantize_(model, {config}(set_inductor_config=False))",
    )


def read(module: torch.nn.Module, operators: Collection[str], given: Collection[str]) -> str:
    """Returns how weights of `module` have fewer bits: names of QUANTIZERS, or FULL.

    `operators` ran in a call, and torch's functions took tensors of the classes `given`. Weights
    that they did not take are told, and inputs of fewer bits that no operator multiplied.
    """
    kinds = sorted({kind for layer in _linears(module) if (kind := _kind(layer.weight))})
    told = []
    for kind in kinds:
        own = QUANTIZERS[kind]
        ran = any(part in name for name in operators for part in own.operators)
        if own.weight not in given:
            told.append(f"{kind}, which no call takes,")
        else:
            without = "" if ran or not own.operators else f" without {' or '.join(own.operators)}"
            told.append(f"{kind}{without}")
    return ", ".join(told) or FULL


def columns(module: torch.nn.Module) -> Quantized:
    """Returns the columns on the weights of `module`; all None if none has fewer bits."""
    few = {id(layer.weight) for layer in _linears(module) if _kind(layer.weight)}
    if not few:
        return Quantized()
    sizes = {id(weight): weight.numel() for weight in module.parameters()}
    share = sum(sizes[key] for key in few) / sum(sizes.values())
    return Quantized(quantized_share=share, quantizer=f"torchao {version('torchao')}")


def _linears(module: torch.nn.Module) -> Iterator[torch.nn.Linear]:
    """Yields the layers that torchao takes: not the projection within `MultiheadAttention`."""
    import torch

    left = torch.nn.modules.linear.NonDynamicallyQuantizableLinear
    for part in module.modules():
        if isinstance(part, torch.nn.Linear) and not isinstance(part, left):
            yield part


def _kind(weight: torch.Tensor) -> str | None:
    """Returns the name in QUANTIZERS of what made `weight`; None: it has all its bits."""
    made, dynamic = type(weight).__name__, getattr(weight, "act_quant_kwargs", None) is not None
    names = (name for name, own in QUANTIZERS.items()
             if (own.weight, bool(own.operators)) == (made, dynamic))  # fmt: skip
    return next(names, None)

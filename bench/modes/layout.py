"""Puts the weights and inputs of convolutions into channels_last, and tells how they lie in memory.

Only tensors with 4 dimensions have this memory format: their channels are what varies fastest. The
values of `mode.layout` that this is for are in `axes.AXES`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from modescope.bench.records.cases import Variant

if TYPE_CHECKING:
    import torch

    from modescope.bench.model.subject import Subject

CHANNELS_LAST = "channels_last"

NO_CONVOLUTION = (
    "mode.layout=channels_last is for convolutions, and no weight here has 4 dimensions"
)

LAID_ALREADY = "mode.layout=channels_last changes nothing: the weights are built in that format"

OF_INPUTS = "x.to(memory_format=torch.channels_last) if x.dim() == 4 else x"


def unfit(module: torch.nn.Module) -> str | None:
    """Says why channels_last changes nothing in `module`; None if it has weights to change."""
    if not any(weight.dim() == 4 for weight in module.parameters()):
        return NO_CONVOLUTION
    return LAID_ALREADY if read(module, ()) == CHANNELS_LAST else None


def prepare(subject: Subject, variant: Variant) -> Subject:
    """Returns `subject` with its weights, buffers and inputs of 4 dimensions in channels_last."""
    import torch  # here, because the command line reads the table of axes without torch

    from modescope.bench.model import copies, geometry

    made: dict[int, torch.Tensor] = {}

    def lay(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() != 4 or not geometry.is_plain(tensor):
            return tensor
        # contiguous() would leave a tensor of one channel or pixel, by whose strides torch chooses
        return tensor.to(memory_format=torch.channels_last)

    def give(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:  # else it is given twice, and must be one tensor again
            laid = lay(tensor)
            made[id(tensor)] = tensor if laid is tensor else geometry.leaf(laid, tensor)
        return made[id(tensor)]

    subject = subject.change(lambda module: copies.convert(module, lay))
    return replace(subject, inputs=subject.inputs.map(give)).remember_state()


def read(module: torch.nn.Module, given: object) -> str:
    """Returns how the weights of `module` and the tensors of the tree `given` lie in memory.

    That is `channels_last`, `contiguous`, or `partly channels_last`, for those of 4 dimensions, as
    torch's convolutions tell it: of tensors that lie alike in both formats, such as weights of
    kernels of one pixel, by their strides.
    """
    import torch
    from torch._prims_common import suggest_memory_format

    from modescope.bench.model import trees

    weights = [weight for weight in module.parameters() if weight.dim() == 4]
    known = [*weights, *(tensor for tensor in trees.tensors(given) if tensor.dim() == 4)]
    told = {suggest_memory_format(tensor) is torch.channels_last for tensor in known}
    if not weights or told == {False}:
        return "contiguous"
    return CHANNELS_LAST if told == {True} else f"partly {CHANNELS_LAST}"

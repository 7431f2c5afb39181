"""Copies and overwrites tensors without changing how their elements lie in memory.

`clone()` and `to()` make a dense tensor of an expanded or sliced one, which takes more memory and
other kernels. Here a copy has the size, strides and offset of its original, and tensors that share
a storage still share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

Convert = Callable[[torch.Tensor], torch.Tensor]
"""A function that makes a new tensor of the same size, with other elements, dtype or device."""

PAGE = 2**20
"""A number of elements. The copy of a part of a storage begins at a multiple of it, which keeps the
alignment without copying all that lies before."""

Memory = tuple[int, torch.dtype]
"""The identity of a storage, and the dtype in which its bytes are read."""

COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def copier(tensors: Iterable[torch.Tensor], convert: Convert) -> Convert:
    """Returns a function that copies any of `tensors` without changing its size and strides.

    `convert` makes the copy's elements, for example in another dtype. Copies of tensors that share
    a storage share one, too. Of a storage only the part that `tensors` show is copied, from a
    multiple of PAGE elements on. `convert` alone copies a tensor without strides, such as a sparse
    one.
    """
    shown: dict[Memory, tuple[int, int]] = {}
    for tensor in filter(_has_strides, tensors):
        begin = int(tensor.storage_offset())
        end = begin + _extent(tensor)
        known = shown.get(_memory(tensor), (begin, end))
        shown[_memory(tensor)] = min(begin, known[0]), max(end, known[1])
    converted: dict[Memory, torch.Tensor] = {}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        if not _has_strides(tensor):
            return convert(tensor)
        memory = _memory(tensor)
        begin, end = shown[memory]
        begin -= begin % PAGE
        if memory not in converted:
            converted[memory] = convert(tensor.as_strided((end - begin,), (1,), begin))
        new, offset = converted[memory], tensor.storage_offset() - begin
        # set_, because as_strided would make a view of another tensor
        return new.new_empty(0).set_(new.untyped_storage(), offset, tensor.size(), tensor.stride())

    return copy


def leaf(tensor: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    """Returns `tensor`, a copy or alias of `original`, as a leaf that carries what that carries.

    That is whether it requires a gradient, its subclass, and its attributes.
    """
    own = tensor.detach()
    kind = type(original)
    if type(own) is not kind and not issubclass(kind, torch.nn.Parameter):
        own = own.as_subclass(kind)
    for name, value in vars(original).items():  # some are what a wrapper consists of
        vars(own).setdefault(name, value)
    return own.requires_grad_(original.requires_grad)


def write(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Overwrites `tensor` in place with `value`, which has the same size and strides."""
    distinct(tensor).copy_(distinct(value))


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the elements of `tensor` can be read and written one by one."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return False
    return tensor.layout == torch.strided and not (tensor.is_quantized or tensor.is_nested)


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two plain tensors of one shape and dtype are equal bit by bit, so nan equals nan."""
    if first.stride() == second.stride():  # an expanded element counts once
        first, second = distinct(first), distinct(second)
    return torch.equal(_bits(first), _bits(second))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().resolve_conj().resolve_neg()
    flat = plain.contiguous().reshape(-1)
    if flat.stride() != (1,):  # one element that was expanded
        flat = flat.new_empty(flat.shape).copy_(flat)
    return flat.view(torch.uint8)


def distinct(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a view of the memory of `tensor` in which each element occurs only once.

    An expanded dimension (stride 0) has size 1 in it. If elements overlap in another way, as in
    sliding windows, the view is one-dimensional, from the first element in memory to the last. Of a
    sparse or nested tensor it shows the values.
    """
    if tensor.layout == torch.sparse_coo:
        return tensor._values()
    if tensor.is_nested or tensor.layout in COMPRESSED:
        return tensor.values()
    if not _has_strides(tensor) or tensor.numel() == 0:
        return tensor
    size = [n if step else 1 for n, step in zip(tensor.size(), tensor.stride(), strict=True)]
    once = tensor.as_strided(size, tensor.stride())
    extent = _extent(tensor)
    return once if once.numel() <= extent else tensor.as_strided((extent,), (1,))


def is_distinct(tensor: torch.Tensor) -> bool:
    """Whether `tensor` has strides, and each of its elements has memory of its own."""
    return is_plain(tensor) and distinct(tensor).shape == tensor.shape


def _has_strides(tensor: torch.Tensor) -> bool:
    """Whether strides and offset locate all elements.

    False for subclasses, which may wrap tensors, and for lazily conjugated or negated tensors.
    """
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    )


def _memory(tensor: torch.Tensor) -> Memory:
    return tensor.untyped_storage()._cdata, tensor.dtype


def _extent(tensor: torch.Tensor) -> int:
    """Returns how many elements of memory lie from the first element of `tensor` to its last."""
    if tensor.numel() == 0:
        return 0
    steps = zip(tensor.size(), tensor.stride(), strict=True)
    return 1 + sum((n - 1) * step for n, step in steps)

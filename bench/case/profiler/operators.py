"""Finds the operators that do work of their own, by torch's operator registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from modescope.bench.case.profiler.nesting import IS_OPERATOR

IDLE = frozenset(
    {
        # allocations without contents
        *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty"),
        *("new_empty_strided", "empty_quantized", "_empty_affine_quantized"),
        *("_empty_per_channel_affine_quantized", "_efficientzerotensor"),
        # views whose schemas do not say so
        *("_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "lift"),
        # its schema says that it writes, but it only notes the stream
        "record_stream",
    }
)
"""aten operators that make or take a tensor without computing anything, despite their schemas."""


def working(names: Iterable[str]) -> list[str]:
    """Those of `names` (such as aten::mul) that do work of their own, sorted.

    An operator works if one of its overloads, except `out=` ones, makes a new tensor or writes one
    and is not just a composition of other operators (CompositeImplicitAutograd, such as
    aten::linear). Views, and operators tagged inplace_view, which change only shape or storage, do
    not work. Neither do names that are not operators.
    """
    return sorted(name for name in set(names) if _works(name))


def _works(name: str) -> bool:
    namespace, _, base = name.partition("::")
    if not IS_OPERATOR(name) or (namespace == "aten" and base in IDLE):
        return False
    return any(_overload_works(schema) for schema in torch._C._jit_get_schemas_for_operator(name))


def _overload_works(schema: Any) -> bool:
    full = ".".join(filter(None, (schema.name, schema.overload_name)))
    if not torch._C._dispatch_has_kernel(full):  # TorchScript only
        return False
    if any(argument.is_out for argument in schema.arguments):
        return False
    if torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd"):
        return False
    _, _, tags = torch._C._get_operation_overload(schema.name, schema.overload_name)
    if torch.Tag.inplace_view in tags:
        return False
    writes = any(each.alias_info and each.alias_info.is_write for each in schema.arguments)
    return writes or _makes(schema)


def _makes(schema: Any) -> bool:
    """Whether it returns a tensor, or a list of tensors, that aliases no argument."""
    return any("Tensor" in str(each.type) and each.alias_info is None for each in schema.returns)

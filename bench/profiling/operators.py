"""Which operators do work, and which only arrange for it? Read from torch's own registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from bench.profiling.nesting import IS_OPERATOR

IDLE = frozenset(
    {
        # memory without contents
        *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty"),
        *("new_empty_strided", "empty_quantized", "_empty_affine_quantized"),
        *("_empty_per_channel_affine_quantized", "_efficientzerotensor"),
        # views whose schemas do not say so
        *("_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "lift"),
        # claims to write a tensor that it only takes note of
        "record_stream",
    }
)
"""aten operators that make or take a tensor without computing anything, whatever they declare."""


def working(names: Iterable[str]) -> list[str]:
    """Those of `names` (such as aten::mul) that do work of their own, sorted.

    An operator works if one of its overloads, `out=` ones aside, makes a new tensor or writes one,
    and is more than a composition of other operators (CompositeImplicitAutograd, as aten::linear
    is). Views return what they were given, and what changes only shape or storage in place is
    tagged inplace_view; neither works. Names that are no operators do not either.
    """
    return sorted(name for name in set(names) if _works(name))


def _works(name: str) -> bool:
    namespace, _, base = name.partition("::")
    if not IS_OPERATOR(name) or (namespace == "aten" and base in IDLE):
        return False
    return any(_overload_works(schema) for schema in torch._C._jit_get_schemas_for_operator(name))


def _overload_works(schema: Any) -> bool:
    full = ".".join(filter(None, (schema.name, schema.overload_name)))
    if not torch._C._dispatch_has_kernel(full):  # of TorchScript alone
        return False
    if any(argument.is_out for argument in schema.arguments):
        return False
    if torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd"):
        return False
    _, _, tags = torch._C._get_operation_overload(schema.name, schema.overload_name)
    if torch.Tag.inplace_view in tags:
        return False
    return _writes(schema) or _makes(schema)


def _writes(schema: Any) -> bool:
    return any(each.alias_info and each.alias_info.is_write for each in schema.arguments)


def _makes(schema: Any) -> bool:
    """Whether a tensor, or a list of them, is returned that aliases no argument."""
    return any("Tensor" in str(each.type) and each.alias_info is None for each in schema.returns)

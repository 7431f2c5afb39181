"""The operators of a trace: how their calls nest, and which of them do work of their own."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from modescope.bench.passes.profiler.traces import Event

IS_OPERATOR = re.compile(r"\w+::\w+(\.\w+)?").fullmatch
"""An operator of the dispatcher, such as aten::mul. No match: `MulBackward0`,
`torch::autograd::AccumulateGrad`, `## Call CompiledFxGraph ... ##`, `graph_0_cpp_fused_mul_0`."""

IS_FUSED = re.compile(r"(graph_\d+_)?(\w+_)?cpp_\w+").fullmatch
"""A C++ kernel of Inductor (torch/_inductor/codegen/cpp.py, cpp_template_kernel.py)."""

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


@dataclass(slots=True)
class Operation:
    """An operation of the host, and how it nests in other operations of its thread."""

    event: Event
    dispatched: bool  # an operator; otherwise a range that torch records around some
    works: bool  # does work of its own
    top: bool  # an operator, and none around it
    kernel: bool  # does work of its own, and no operation around it does
    leaf: bool  # an operator, and none inside it
    self_ns: int  # its time without that of operations directly inside it


def operations(events: Iterable[Event], working: Collection[str]) -> list[Operation]:
    """Returns the operations of all threads in order of their start, with their nesting.

    An operation that overlaps another only partly, because an end was lost, is left out. `working`
    has the names of operators that do work of their own. Fused kernels always do.
    """
    placed: list[Operation] = []
    of_threads: dict[int | str, list[Operation]] = defaultdict(list)
    for event in sorted(events, key=lambda e: (e.start_ns, -e.end_ns)):
        around = of_threads[event.thread]
        while around and around[-1].event.end_ns <= event.start_ns:
            around.pop()
        if around and event.end_ns > around[-1].event.end_ns:
            continue
        dispatched = bool(IS_OPERATOR(event.name))
        works = event.name in working or bool(IS_FUSED(event.name))
        top = dispatched and not any(each.dispatched for each in around)
        kernel = works and not any(each.works for each in around)
        found = Operation(event, dispatched, works, top, kernel, dispatched, event.length_ns)
        if around:
            around[-1].self_ns -= event.length_ns
        if dispatched:
            for each in around:
                each.leaf = False
        around.append(found)
        placed.append(found)
    return placed


def find_working(names: Iterable[str]) -> list[str]:
    """Returns the operators in `names` (such as aten::mul) that do work of their own, sorted.

    An operator works if one of its overloads, except `out=` ones, makes a new tensor or writes one,
    and is not just a composition of other operators (CompositeImplicitAutograd, such as
    aten::linear). Views do not work, nor do operators tagged inplace_view, which change only shape
    or storage. Names that are not operators are left out.
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
    makes = any("Tensor" in str(each.type) and each.alias_info is None for each in schema.returns)
    return writes or makes

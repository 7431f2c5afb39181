"""The operators of a trace: how their calls nest, and which of them do work of their own."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from modescope.bench.case.profiler.traces import Event

IS_OPERATOR = re.compile(r"\w+::\w+(\.\w+)?").fullmatch
"""An operator of the dispatcher, such as aten::mul. No match: `MulBackward0`,
`torch::autograd::AccumulateGrad`, `## Call CompiledFxGraph ... ##`, `graph_0_cpp_fused_mul_0`."""

IS_FUSED = re.compile(r"(graph_\d+_)?(\w+_)?cpp_\w+").fullmatch
"""A C++ kernel of Inductor, compiled with `config.cpp.enable_kernel_profile`
(torch/_inductor/codegen/cpp.py, cpp_template_kernel.py)."""

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


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the host and its place among the others of its thread."""

    event: Event
    dispatched: bool  # an operator; otherwise a range that torch records around some
    top: bool  # no operator around it
    leaf: bool  # no operator inside it
    kernel: bool  # does work of its own, and no operation around it does
    self_ns: int  # its time without that of operations directly inside it


def operations(
    events: Iterable[Event], works: Collection[str]
) -> tuple[list[Operation], list[Event]]:
    """The operations of all threads, and those that only partly overlap another.

    The latter, which arise where an end was lost, cannot be placed. `works`: names of operators
    that do work of their own; fused kernels always do.
    """
    threads: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in events:
        threads[event.process, event.thread].append(event)
    placed: list[Operation] = []
    misplaced: list[Event] = []
    for thread in threads.values():
        nested, parents, lost = _nest(thread)
        placed += _describe(nested, parents, lambda name: name in works or bool(IS_FUSED(name)))
        misplaced += lost
    return placed, misplaced


def _nest(thread: list[Event]) -> tuple[list[Event], list[int], list[Event]]:
    """Events with outer ones first, the positions of their parents (-1: none), and misfits."""
    nested: list[Event] = []
    parents: list[int] = []
    misfits: list[Event] = []
    around: list[int] = []
    for event in sorted(thread, key=lambda e: (e.start_ns, -e.end_ns)):
        while around and nested[around[-1]].end_ns <= event.start_ns:
            around.pop()
        if around and event.end_ns > nested[around[-1]].end_ns:
            misfits.append(event)
            continue
        parents.append(around[-1] if around else -1)
        around.append(len(nested))
        nested.append(event)
    return nested, parents, misfits


def _describe(
    nested: list[Event], parents: list[int], works: Callable[[str], bool]
) -> list[Operation]:
    count = len(nested)
    dispatched = [bool(IS_OPERATOR(event.name)) for event in nested]
    find_working = [works(event.name) for event in nested]
    below_operator, inside_work = [False] * count, [False] * count
    above_operator, self_ns = [False] * count, [event.length_ns for event in nested]
    for i, parent in enumerate(parents):
        if parent >= 0:
            below_operator[i] = dispatched[parent] or below_operator[parent]
            inside_work[i] = find_working[parent] or inside_work[parent]
            self_ns[parent] -= nested[i].length_ns
    for i in reversed(range(count)):
        if parents[i] >= 0 and (dispatched[i] or above_operator[i]):
            above_operator[parents[i]] = True
    return [
        Operation(
            event,
            dispatched[i],
            top=dispatched[i] and not below_operator[i],
            leaf=dispatched[i] and not above_operator[i],
            kernel=find_working[i] and not inside_work[i],
            self_ns=self_ns[i],
        )
        for i, event in enumerate(nested)
    ]


def find_working(names: Iterable[str]) -> list[str]:
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
    makes = any("Tensor" in str(each.type) and each.alias_info is None for each in schema.returns)
    return writes or makes

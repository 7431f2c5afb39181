"""The dispatch keys that a call visits, computed from torch's own tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

import torch
from torch import Tensor

FALLTHROUGH = "fallthrough"
COMPOSITE = "math kernel"
"""torch's name for a composite kernel, which calls other operators through the dispatcher."""

_ENTRY = re.compile(r"^(\w+): (fallthrough )?registered at .* \[(.+)\]$", re.MULTILINE)

KERNELS = {
    "Autocast": r"^at::autocast::WrapFunction_<.*&at::_ops::{name}::call\b",
    "Autograd": r"\btorch::autograd::VariableType::\(anonymous namespace\)::{name}\b",
    "ADInplaceOrView": r"\btorch::ADInplaceOrView::\(anonymous namespace\)::{name}\b",
    "CPU": r"\bwrapper_CPU__?{name}\b",
}
"""C++ names of the kernels that torch generates (tested: 2.13), by the beginning of their key.

Most patterns match within a name: the compiler may inline a kernel into its only caller, whose name
has the kernel's as a template argument."""


def visited(operator: str, tensors: Sequence[Tensor]) -> tuple[str, ...]:
    """Keys whose kernels a call of `operator` on `tensors` runs in this context, outermost first.

    A call goes to the highest active key that does not fall through, whose kernel redispatches to
    the keys below. The path ends at a backend or a composite kernel. Other operators that a kernel
    calls, such as the casts of autocast, are not part of it.
    Source: c10/core/DispatchKeySet.h and aten/src/ATen/core/dispatch/OperatorEntry.cpp.
    """
    kernels = registered(torch._C._dispatch_dump_table(operator))
    path: list[str] = []
    for key in _active(tensors):
        if kernels[key] == FALLTHROUGH:
            continue
        path.append(key)
        if kernels[key] == COMPOSITE:
            break
    return tuple(path)


def registered(table: str) -> dict[str, str]:
    """Kind of kernel per key, from the text of `torch._C._dispatch_dump_table`."""
    return {key: FALLTHROUGH if skips else kind for key, skips, kind in _ENTRY.findall(table)}


def _active(tensors: Sequence[Tensor]) -> Iterator[str]:
    """Keys of the tensors and of this thread, highest priority first."""
    keys = torch._C._dispatch_tls_local_include_set()
    for tensor in tensors:
        keys = keys | torch._C._dispatch_keys(tensor)
    keys = keys - torch._C._dispatch_tls_local_exclude_set()
    while (key := keys.highestPriorityTypeId()) != torch._C.DispatchKey.Undefined:
        yield key.name
        keys = keys.remove(key)


def executed(operator: str, functions: Set[str], among: Sequence[str]) -> tuple[str, ...] | None:
    """Keys of `among`, in its order, whose kernels of `operator` are in the executed `functions`.

    None if there is no kernel of any key: then this build of torch has no function names.
    """
    name = operator.removeprefix("aten::").replace(".", "_")
    kinds = {kind: re.compile(text.format(name=name)) for kind, text in KERNELS.items()}
    ran = {kind for kind, pattern in kinds.items() if any(map(pattern.search, functions))}
    if not ran:
        return None
    named = {key: next((kind for kind in KERNELS if key.startswith(kind)), key) for key in among}
    extra = ran - set(named.values())
    return (*(key for key in among if named[key] in ran), *sorted(extra))

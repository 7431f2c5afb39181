"""The kernels that the dispatcher enters: seen by kernels in their place, or computed.

A test compares what `probed` sees with what `visited` reads off torch's own tables.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet

_ENTRY = re.compile(r"^(\w+): (fallthrough )?registered at .* \[(.+)\]$", re.MULTILINE)
"""A line of `torch._C._dispatch_dump_table`: key, whether it is skipped, kind of kernel."""


@contextmanager
def probed(operator: str, keys: Sequence[str]) -> Iterator[list[str]]:
    """Yields the list to which each call of `operator` adds those of `keys` whose kernel it enters.

    `operator` as in `aten::mm`, `keys` as in `AutogradCPU`. Within the block the kernels at these
    keys only pass the call on to the keys below: nothing is recorded for a backward or cast.
    """
    entered: list[str] = []
    namespace, _, name = operator.partition("::")
    op = getattr(getattr(torch.ops, namespace), name).default

    def kernel(key: str, active: DispatchKeySet, *arguments: Any, **more: Any) -> Any:
        entered.append(key)
        return op.redispatch(active.remove(getattr(DispatchKey, key)), *arguments, **more)

    library = torch.library.Library(namespace, "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is replaced, which is meant
            for key in keys:
                library.impl(name, partial(kernel, key), key, with_keyset=True, allow_override=True)
        yield entered
    finally:
        library._destroy()


def visited(operator: str, tensors: Sequence[Tensor]) -> tuple[str, ...]:
    """Keys whose kernels a call of `operator` on `tensors` runs in this context, outermost first.

    A call goes to the highest active key that does not fall through, whose kernel calls the keys
    below. The path ends at a backend or a composite kernel. Other operators that a kernel calls,
    such as the casts of autocast, are not part of it.
    Source: c10/core/DispatchKeySet.h and aten/src/ATen/core/dispatch/OperatorEntry.cpp.
    """
    found = _ENTRY.findall(torch._C._dispatch_dump_table(operator))
    kernels = {key: "fallthrough" if skips else kind for key, skips, kind in found}
    active = torch._C._dispatch_tls_local_include_set()
    for tensor in tensors:
        active = active | torch._C._dispatch_keys(tensor)
    active = active - torch._C._dispatch_tls_local_exclude_set()
    path: list[str] = []
    while (key := active.highestPriorityTypeId()) != DispatchKey.Undefined:
        active = active.remove(key)
        if kernels[key.name] == "fallthrough":
            continue
        path.append(key.name)
        if kernels[key.name] == "math kernel":  # composite: it calls other operators
            break
    return tuple(path)

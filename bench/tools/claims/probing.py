"""The kernels that the dispatcher enters: noted by kernels put in their place, and computed.

`probed` sees them, `visited` reads them off torch's own tables. The two must agree.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

FALLTHROUGH = "fallthrough"
COMPOSITE = "math kernel"
"""torch's name for a composite kernel, which calls other operators through the dispatcher."""

_ENTRY = re.compile(r"^(\w+): (fallthrough )?registered at .* \[(.+)\]$", re.MULTILINE)


@contextmanager
def probed(operator: str, keys: Sequence[str]) -> Iterator[list[str]]:
    """Yields the list to which each call of `operator` adds those of `keys` whose kernel it enters.

    `operator` as in `aten::add.Tensor`, `keys` as in `AutogradCPU`. Within the block the kernels at
    these keys do nothing but that: they pass the call on to the keys below, so that nothing is
    recorded for a backward and nothing is cast. Afterwards torch's own are back.
    """
    entered: list[str] = []
    namespace, _, name = operator.partition("::")
    packet, _, overload = name.partition(".")
    op = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    library = torch.library.Library(namespace, "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is replaced, which is meant
            for key in keys:
                kernel = _noting(op, key, entered)
                library.impl(name, kernel, key, with_keyset=True, allow_override=True)
        yield entered
    finally:
        library._destroy()


def _noting(op: Any, key: str, entered: list[str]) -> Callable[..., Any]:
    own = getattr(torch._C.DispatchKey, key)

    def kernel(keys: torch._C.DispatchKeySet, *arguments: Any, **more: Any) -> Any:
        entered.append(key)
        return op.redispatch(keys.remove(own), *arguments, **more)

    return kernel


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

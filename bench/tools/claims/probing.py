"""The kernels that the dispatcher enters, noted by kernels put in their place.

`bench.tools.instructions.keys` computes the same from torch's tables. The two must agree.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch


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

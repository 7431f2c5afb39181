"""Operators whose calls are not profiled, because they bypass the C++ dispatcher.

After torch 2.13 a call of a `torch.library.custom_op` from Python goes straight to its Python
kernels ("PyObject dispatch", github.com/pytorch/pytorch/pull/187949). Profiler records are opened
in the C++ dispatcher, so such a call shows only as the operators that its kernels call: as none if
they launch a kernel of their own, or compute in C or NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch._library.custom_ops import OPDEFS


@contextmanager
def through_the_dispatcher() -> Iterator[frozenset[str]]:
    """Within it, every call of a custom_op goes through the C++ dispatcher, as up to torch 2.13.

    Yields the names (such as mylib::myadd) of those that may otherwise bypass it. They compute the
    same; a call takes some microseconds more.
    """
    ops: list[Any] = [definition._opoverload for definition in list(OPDEFS.values())]
    bypassing = [op for op in ops if getattr(op, "_pyobj_dispatcher", None) is not None]
    for op in bypassing:
        op._enable_pyobj_dispatch(False)
    try:
        yield frozenset(op._schema.name for op in bypassing)
    finally:
        for op in bypassing:
            op._enable_pyobj_dispatch(True)

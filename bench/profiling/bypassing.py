"""Operators whose calls no profiler records, as they go around the C++ dispatcher.

After torch 2.13 a call of a `torch.library.custom_op` from Python goes straight to its Python
kernels ("PyObject dispatch", github.com/pytorch/pytorch/pull/187949). The C++ dispatcher opens the
profiler's records, so of such a call only the operators show that its kernels call in turn: none
where they launch a kernel of their own, or compute in C or NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch._library.custom_ops import OPDEFS


@contextmanager
def through_the_dispatcher() -> Iterator[frozenset[str]]:
    """Within it, every call of a custom_op goes through the C++ dispatcher, as up to torch 2.13.

    Yields the names (such as mylib::myadd) of those that may go around it otherwise. What they
    compute is the same; a call takes some microseconds more.
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

"""Tells whether torch's compiler is imported, and imports it only for cases that compile.

The import takes seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch._compile import _disable_dynamo
from torch.utils._python_dispatch import TorchDispatchMode

WORKERS_START_S = 120.0
"""The longest wait for worker processes, in seconds; torch's `AsyncCompile.wait_pool_ready` has the
same."""


def import_it() -> None:
    """Imports all parts of the compiler that the first call of a compiled module would import."""
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401


def import_without_cuda() -> None:
    """Imports the compiler without starting CUDA, in a process that is forked later.

    During the import, Inductor of torch 2.11 asks for a GPU
    (torch/_inductor/runtime/benchmarking.py).
    """
    from modescope.bench.devices.cuda import count_gpus_in_fork

    with count_gpus_in_fork():
        import_it()


def is_imported() -> bool:
    """Whether the compiler has been imported, by modescope or by the model."""
    return "torch._dynamo.utils" in sys.modules


def wait_for_workers() -> None:
    """Waits until the processes in which Inductor compiles with Triton, if any, have started.

    They start with the first compilation, take several cores for seconds, and may outlast it.
    """
    pools = getattr(sys.modules.get("torch._inductor.async_compile"), "AsyncCompile", None)
    ready = getattr(pools, "_ready_future", None)
    if ready is not None:
        with suppress(Exception):  # without them Inductor compiles in this process
            ready.result(WORKERS_START_S)


@contextmanager
def _compile_nothing() -> Iterator[None]:
    """Runs in eager what the model compiles by itself, and leaves compiled code as it was.

    Dynamo gives up code that it meets under a dispatch mode for the rest of the process.
    """
    imported = is_imported()
    with ExitStack() as stack:
        if imported:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        try:
            yield
        finally:
            if is_imported() and not imported:  # in the block, so nothing is lost
                torch.compiler.reset()


class OperatorMode(TorchDispatchMode):
    """A dispatch mode that does not import torch's compiler, and under which nothing is compiled.

    torch decorates `__torch_dispatch__` to keep Dynamo away; the decorator's first call imports the
    compiler, which takes seconds. Here the decorator is used only if the compiler is already
    imported, because the model may compile a part of itself although the mode of the case does not.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        method = type(self).__torch_dispatch__
        if is_imported() and not hasattr(method, "__wrapped__"):
            kept_away = _disable_dynamo(method, recursive=True)
            type(self).__torch_dispatch__ = kept_away  # type: ignore[method-assign]
        self._within: list[AbstractContextManager[None]] = []  # a mode may be entered within itself

    def __enter__(self) -> Any:
        self._within.append(_compile_nothing())
        self._within[-1].__enter__()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *raised: Any) -> None:
        try:
            super().__exit__(*raised)  # type: ignore[no-untyped-call]
        finally:
            self._within.pop().__exit__(*raised)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

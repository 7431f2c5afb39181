"""Tells whether torch's compiler is imported, and imports it only for cases that compile.

The import takes seconds.
"""

from __future__ import annotations

import sys
from contextlib import suppress

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


class OperatorMode(TorchDispatchMode):
    """A dispatch mode that does not import torch's compiler.

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

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

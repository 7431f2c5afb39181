"""torch's compiler, whose import takes seconds. Only cases that compile import it."""

from __future__ import annotations

import sys
from contextlib import suppress

WORKERS_START_S = 120.0
"""As long as `AsyncCompile.wait_pool_ready` of torch waits."""


def import_it() -> None:
    """Imports all of it that a first call would import."""
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401


def import_without_cuda() -> None:
    """The same in a process that is forked later, which must not start CUDA.

    While imported, Inductor of torch 2.11 asks for a GPU (torch/_inductor/runtime/benchmarking.py).
    """
    from modescope.bench.devices.cuda import gpus_counted_apart

    with gpus_counted_apart():
        import_it()


def is_imported() -> bool:
    """Whether anything has imported it, which a model that compiles itself does too."""
    return "torch._dynamo.utils" in sys.modules


def wait_for_workers() -> None:
    """Waits until the processes have started in which Inductor compiles with Triton, if any.

    They take seconds of several cores, from the first compilation on, which may end before.
    """
    pools = getattr(sys.modules.get("torch._inductor.async_compile"), "AsyncCompile", None)
    ready = getattr(pools, "_ready_future", None)
    if ready is not None:
        with suppress(Exception):  # without them Inductor compiles in this process
            ready.result(WORKERS_START_S)

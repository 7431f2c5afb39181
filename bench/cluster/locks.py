"""Locks of a machine: no two cases on one GPU, and cases on the CPU alone.

They are files in memory or in /tmp, locked by flock, so a killed process holds none. Who has held a
lock lets others have it before it takes it again.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

Locks = Sequence[tuple[str, bool]]
"""Names, each with whether others may hold it at the same time."""

ON_CPU: Locks = (("node", False),)


def on_gpu(key: str) -> Locks:
    """For a case on the GPU with that UUID or number."""
    return (("node", True), (f"gpu-{key.replace('/', '_')}", False))


def attempt(names: Locks) -> ExitStack | None:
    """Holds all locks until the stack is closed; None where another process holds one."""
    with ExitStack() as stack:
        for name, shared in names:
            if not _lock(stack, name, shared):
                return None
        return stack.pop_all()


def wait(names: Locks, seconds: float) -> None:
    """Waits so long, and lets the holders of the locks know that somebody waits."""
    with ExitStack() as stack:
        for name, _ in names:
            _lock(stack, f"{name}.waiting", shared=True)
        time.sleep(seconds)


def is_awaited(names: Locks) -> bool:
    """Whether another process waits for one of the locks."""
    with ExitStack() as stack:
        return not all(_lock(stack, f"{name}.waiting", shared=False) for name, _ in names)


def _lock(stack: ExitStack, name: str, shared: bool) -> bool:
    """Whether a lock could be had; it is held until the stack is closed."""
    descriptor = os.open(_folder() / name, os.O_RDWR | os.O_CREAT, 0o600)
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _folder() -> Path:
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    folder = base / f"modescope-locks-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def visible_gpu() -> str | None:
    """What the environment says of this process's first GPU: its UUID, or its number."""
    names = ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
    first = [os.environ.get(name, "").partition(",")[0] for name in names]
    if first[0].startswith("GPU-"):
        return first[0]
    # Slurm's own numbers count on the whole machine; those of CUDA may begin at 0 in every job
    return next((gpu for gpu in (*first[1:], first[0]) if gpu), None)

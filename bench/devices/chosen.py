"""The device that code of the user's runs on, in a process that is not ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from modescope.bench.devices.cuda import Cuda, find
from modescope.bench.devices.devices import Cpu, Hardware


@contextmanager
def chosen(name: str) -> Iterator[Hardware]:
    """The device called `name`, for use within the block.

    `auto` is the current GPU of a process that has used one, else the CPU. Afterwards the current
    GPU is the same as before. Raises UsageError where there is no such device.
    """
    used = torch.cuda.is_initialized()
    before = torch.cuda.current_device() if used else None
    if name == "auto":
        yield Cpu() if before is None else Cuda(before)
        return
    try:
        yield find(name)
    finally:
        if torch.cuda.is_initialized():
            torch.cuda.set_device(before or 0)

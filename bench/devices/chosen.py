"""The device that code of the user's runs on, in a process that is not ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from modescope.bench.devices.cuda import find, gpu_in_use
from modescope.bench.devices.devices import Hardware


@contextmanager
def chosen(name: str) -> Iterator[Hardware]:
    """The device called `name`, for use within the block.

    `auto` and `cuda` are the current GPU of a process that has used one; in others `auto` is the
    CPU. Afterwards the current GPU is the same as before. Raises UsageError where there is no such
    device.
    """
    used = gpu_in_use()
    if used is not None and name in ("auto", "cuda"):
        name = str(used)
    elif name == "auto":
        name = "cpu"
    try:
        yield find(name)
    finally:
        if torch.cuda.is_initialized():
            torch.cuda.set_device(used or 0)

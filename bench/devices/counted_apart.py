"""How many GPUs there are, without starting CUDA in this process.

Counting them starts CUDA, which no process can use that is forked afterwards ("Cannot re-initialize
CUDA in forked subprocess").
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from unittest import mock

import torch

COUNT = "_cuda_getDeviceCount"
"""Only in builds for CUDA. `torch.cuda.is_available` calls it, which Dynamo knows by identity."""

MOST_GPUS = 255  # that an exit status can tell


def gpus_counted_apart() -> AbstractContextManager[object]:
    """Within the block torch counts GPUs in a process that is forked for it."""
    count = getattr(torch._C, COUNT, None)
    if count is None:
        return nullcontext()
    return mock.patch.object(torch._C, COUNT, cache(partial(_called_apart, count)))


def _called_apart(count: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        try:
            os._exit(min(count(), MOST_GPUS))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return max(0, os.waitstatus_to_exitcode(status))  # negative: ended by a signal

"""Imports torch's compiler without starting CUDA. Only the forkserver imports this module.

While imported, Inductor of torch 2.11 asks for a GPU (torch/_inductor/runtime/benchmarking.py). The
answer starts CUDA, which no process can use that is forked afterwards ("Cannot re-initialize CUDA
in forked subprocess").
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from unittest import mock

import torch

from modescope.bench.steps import compiler

COUNT = "_cuda_getDeviceCount"
"""Only in builds for CUDA. `torch.cuda.is_available` calls it, which Dynamo knows by identity."""

MOST_GPUS = 255  # that an exit status can tell


def _called_apart(count: Callable[[], int]) -> int:
    """The number that `count` returns in a process that is forked to call it."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(min(count(), MOST_GPUS))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return max(0, os.waitstatus_to_exitcode(status))  # negative: ended by a signal


def _counting_apart() -> AbstractContextManager[object]:
    count = getattr(torch._C, COUNT, None)
    if count is None:
        return nullcontext()
    return mock.patch.object(torch._C, COUNT, cache(partial(_called_apart, count)))


with _counting_apart():
    compiler.import_it()

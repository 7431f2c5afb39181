"""Imports torch's compiler without starting CUDA. Only the forkserver imports this module.

While imported, Inductor of torch 2.11 asks for a GPU (torch/_inductor/runtime/benchmarking.py). The
answer starts CUDA, which no process can use that is forked afterwards ("Cannot re-initialize CUDA
in forked subprocess").
"""

from __future__ import annotations

import os
from functools import cache
from unittest import mock

import torch

from modescope.bench.steps import compiler

COUNT = "_cuda_getDeviceCount"
"""Only in builds for CUDA. `torch.cuda.is_available` calls it, which Dynamo knows by identity."""

MOST_GPUS = 255  # that an exit status can tell


@cache
def _gpus() -> int:
    """The number that a process finds which is forked to count them."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(min(_count(), MOST_GPUS))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return max(0, os.waitstatus_to_exitcode(status))  # negative: ended by a signal


if hasattr(torch._C, COUNT):
    _count = getattr(torch._C, COUNT)
    with mock.patch.object(torch._C, COUNT, _gpus):
        compiler.import_it()
else:
    compiler.import_it()

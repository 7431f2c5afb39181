"""Imports torch's compiler without starting CUDA. Only the forkserver imports this module.

While imported, Inductor of torch 2.11 asks for a GPU (torch/_inductor/runtime/benchmarking.py). The
answer starts CUDA, which no process can use that is forked afterwards ("Cannot re-initialize
CUDA in forked subprocess").
"""

from __future__ import annotations

import os
from functools import cache
from unittest import mock

import torch

from modescope.bench.steps import compiler

_is_available = torch.cuda.is_available


@cache
def _answer_of_a_child() -> bool:
    """The answer of a process that is forked for the question alone."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if _is_available() else 1)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


with mock.patch.object(torch.cuda, "is_available", _answer_of_a_child):
    compiler.import_it()

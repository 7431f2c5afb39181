"""Imports torch's compiler without starting CUDA. Only the forkserver imports this module.

While imported, Inductor of torch 2.11 asks for a GPU (torch/_inductor/runtime/benchmarking.py).
"""

from __future__ import annotations

from modescope.bench.devices.counted_apart import gpus_counted_apart
from modescope.bench.steps import compiler

with gpus_counted_apart():
    compiler.import_it()

"""The table of causes. A new one is a function and an entry of `CAUSES` in the file that fits."""

from __future__ import annotations

from modescope.analysis.causes import (
    calls,
    compiler,
    first_call,
    graphs,
    kernels,
    machine,
    memory,
    overhead,
    precision,
)

CAUSES = (
    *graphs.CAUSES,
    *calls.CAUSES,
    *compiler.CAUSES,
    *overhead.CAUSES,
    *kernels.CAUSES,
    *precision.CAUSES,
    *machine.CAUSES,
    *first_call.CAUSES,
    *memory.CAUSES,
)
"""Causes of one kind whose shares are equal or unknown are named in this order."""

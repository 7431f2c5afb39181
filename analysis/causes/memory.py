"""The rule on the memory of compiling."""

from __future__ import annotations

from modescope.analysis.causes.types import COST, Case, Cause, Evidence
from modescope.analysis.causes.verdicts import is_compared, is_compiled
from modescope.analysis.format import numbers

LEAST_BYTES = 32 * 2**20  # above plain eager's first call; loading the compiler takes 50 to 75 MiB
TIMES = 2.0  # the peak of a steady call


def memory_of_compiling(case: Case) -> Evidence | None:
    """The first call takes far more memory than plain eager's, and than a steady call."""
    row, plain = case.row, case.plain
    setup, steady = row["setup_peak_bytes"], row["peak_bytes"]
    before = None if plain is None else plain["setup_peak_bytes"]
    if not is_compiled(row) or not is_compared(row) or None in (setup, steady, before):
        return None
    if setup - before < LEAST_BYTES or setup < TIMES * steady:
        return None
    figures = {
        "setup": numbers.size(setup), "before": numbers.size(before),
        "steady": numbers.size(steady),
    }  # fmt: skip
    return Evidence(None, figures)


CAUSES = (
    Cause(
        "memory_of_compiling", COST, memory_of_compiling,
        "the first call takes {setup} more memory, in eager {before}; a steady call needs "
        "{steady}.",
        "Leave room for the first call, or compile with fewer workers "
        "(TORCHINDUCTOR_COMPILE_THREADS=1).",
        "the first call takes 32 MiB more than eager's, and twice what a steady call needs",
    ),
)  # fmt: skip
"""Causes in memory."""

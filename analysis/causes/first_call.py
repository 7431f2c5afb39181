"""The rule on the first call: compiling, autotuning and capturing."""

from __future__ import annotations

from modescope.analysis.causes.types import COST, Case, Cause, Evidence
from modescope.analysis.causes.verdicts import long_first_call
from modescope.analysis.derive.profile import phases_of
from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.phrases import Row

_MOST_PHASES = 3


def first_call(case: Case) -> Evidence | None:
    """The first call takes as long as a thousand calls of the baseline or more."""
    row, calls = case.row, long_first_call(case.row)
    if calls is None:
        return None
    figures = {
        "what": phrases.first_step(row), "first": numbers.duration(row["first_call_s"]),
        "calls": numbers.calls(calls), "phases": _phases(row), "caches": _caches(case),
        "pays": _pays(row),
    }  # fmt: skip
    return Evidence(None, figures)


def _phases(row: Row) -> str:
    """`: inductor 4.10 s, codegen 2.20 s, dynamo 0.80 s`; empty where unknown."""
    phases = sorted(phases_of(row).items(), key=lambda one: -one[1])
    known = [f"{name} {time_s:#.3g} s" for name, time_s in phases[:_MOST_PHASES]]
    return f": {', '.join(known)}" if known else ""


def _caches(case: Case) -> str:
    """`; with a warm compiler cache 1.03 s`; empty without such a row.

    A warm cache that lacked the row's code says nothing.
    """
    for other in case.caches:
        lacked = other["compile_cache"] == "warm" and other["compiler_cache_misses"]
        if other["first_call_s"] is not None and not lacked:
            first = numbers.duration(other["first_call_s"])
            return f"; with a {other['compile_cache']} compiler cache {first}"
    return ""


def _pays(row: Row) -> str:
    calls = row["break_even_calls"]
    if not calls:
        return ""
    if calls == float("inf"):
        return f"; at {'these sizes' if row['calls'] else 'this size'} it never pays"
    return f"; it pays after {numbers.calls(calls)} calls"


CAUSES = (
    Cause(
        "first_call", COST, first_call,
        "the {what} takes {first}, as long as {calls} calls of the baseline{phases}{caches}.",
        "Time the calls after it, and keep torch's compiler cache between processes{pays}.",
        "the first call takes as long as a thousand calls of the baseline, or more",
    ),
)  # fmt: skip
"""Causes in the first call."""

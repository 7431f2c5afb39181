"""Rules on the machine's use: threads, and what torch itself warned of."""

from __future__ import annotations

from modescope.analysis.causes import evidence
from modescope.analysis.causes.types import HINT, SETTING, Cause, Context, Evidence
from modescope.analysis.causes.verdicts import LITTLE, is_no_gain
from modescope.analysis.derive import pace
from modescope.analysis.format import numbers, phrases
from modescope.bench.stats.estimates import Estimate, ends

NEAR = 0.5  # of the ceiling of the threads in use: above it more threads are the way to go on


def threads(context: Context) -> Evidence | None:
    """The same case is faster by a tenth with another number of threads, by the intervals.

    The latencies are compared at equal pace of the machine where that is known, as the two are
    separate processes. Two processes of the same code differ by less than a tenth.
    """
    row = context.row
    compared = ((one, pace.latencies(row, one)) for one in context.threads)
    faster = [(one, both) for one, both in compared if both and _surely_faster(*both)]
    if not faster:
        return None
    best, (mine, theirs) = min(faster, key=lambda pair: pair[1][1].value / pair[1][0].value)
    figures = {
        "here": numbers.counted(row["threads"], "thread", "threads"),
        "mine": numbers.estimate(mine),
        "there": numbers.counted(best["threads"], "thread", "threads"),
        "theirs": numbers.estimate(theirs),
        "pace": " (both at the machine's full pace)" if pace.has_pace(row, best) else "",
        "threads": str(best["threads"]),
    }
    return Evidence(1 - theirs.value / mine.value, figures)


def _surely_faster(mine: Estimate, theirs: Estimate) -> bool:
    (low_s, _), (_, high_s) = ends(mine), ends(theirs)
    return high_s * (1 + LITTLE) < low_s


def idle_cores(context: Context) -> Evidence | None:
    """Arithmetic limits the call, near the highest rate of its threads, and cores are idle."""
    row = context.row
    count, cores = row["threads"], row["cpu_cores"]
    if phrases.on_cuda(row) or phrases.not_in_effect(row):
        return None
    if None in (count, cores) or count >= cores:
        return None
    measured = any(one["threads"] > count for one in context.threads)
    fraction = row["roofline_fraction"]
    near = row["floor_bound"] == "compute" and fraction is not None and NEAR <= fraction <= 1
    if measured or not near or row["bound_by"] != "work" or not is_no_gain(row):
        return None
    figures = {
        "count": numbers.count(count), "cores": numbers.count(cores),
        "share": numbers.share(fraction, 1),
    }  # fmt: skip
    return Evidence(None, figures)


def torch_warning(context: Context) -> Evidence | None:
    """Torch printed a warning during the case."""
    warnings = evidence.texts(context.row, "torch_warnings")
    return Evidence(None, {"warning": evidence.first_and_count(warnings)}) if warnings else None


CAUSES = (
    Cause(
        SETTING, threads,
        "with {here} a call takes {mine}, with {there} {theirs}{pace}.",
        "Use threads={threads} (torch.set_num_threads).",
    ),
    Cause(
        HINT, idle_cores,
        "its arithmetic runs at {share} of the highest rate measured, on {count} of {cores} cores.",
        "Measure more threads (threads={cores}).",
    ),
    Cause(
        HINT, torch_warning,
        "torch warned: {warning}",
    ),
)  # fmt: skip

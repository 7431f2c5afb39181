"""Rules on kernels: unchanged, fused or slower ones, their least possible time, and threads.

A rule returns evidence if what its docstring says holds for the row of the context, else None.
"""

from __future__ import annotations

import json

from modescope.analysis.causes import evidence, remedies
from modescope.analysis.causes.evidence import Kernel, kernels
from modescope.analysis.causes.outcome import (
    LITTLE,
    is_compiled,
    is_faster,
    is_no_gain,
    is_same_precision,
    is_slower,
)
from modescope.analysis.causes.overhead import LEAST
from modescope.analysis.causes.savings import claim, negative, savings
from modescope.analysis.causes.types import Cause, Context, Evidence, Kind
from modescope.analysis.derive import flags, pace
from modescope.analysis.format import numbers
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.stats.estimates import (
    Estimate,
    ends,
    exactly,
    is_wide,
    product,
    quotient,
)

HALF = 0.5  # of a call: kernels that remain are named if they take more
NEAR = 0.7  # of a call's work: the floor is named if it takes more
MOST = 3  # places of subnormal numbers that are named
SLOWER = 1.1  # generated kernels ÷ those they replace, by the profile


def subnormal_numbers(context: Context) -> Evidence | None:
    """Weights, inputs or results contain subnormal numbers, which can slow a CPU many times."""
    shares = json.loads(context.row.get("subnormal") or "{}")
    if not shares or predicates.on_cuda(context.row):
        return None
    places = sorted(shares, key=lambda place: -shares[place])
    named = ", ".join(f"{place} ({numbers.share(shares[place], 1)})" for place in places[:MOST])
    more = f" and {len(places) - MOST} more" if len(places) > MOST else ""
    return Evidence(None, {"places": f"{named}{more}"})


def unchanged_kernels(context: Context) -> Evidence | None:
    """The mode gains little, and kernels that eager runs, too, take half of its call or more."""
    row = context.row
    if not is_no_gain(row) or not is_same_precision(row) or row["bound_by"] == "overhead":
        return None
    if evidence.texts(row, "eager_functions") or row["gave_up_at_call"] is not None:
        return None  # what runs in eager has eager's kernels, which compiling would change
    left = _unchanged(row, context.plain)
    share = evidence.share_of_call(row, evidence.seconds(left))
    if share is None or share < HALF:
        return None
    most = quotient(row["speedup"], exactly(share))
    assert most is not None
    texts = {
        "share": numbers.share(share, 1), "names": evidence.heaviest_names(left, row),
        "most": numbers.middle(most),
        "remedy": remedies.less_work(context),
    }  # fmt: skip
    return Evidence(share, texts)


def fused_kernels(context: Context) -> Evidence | None:
    """A compiled mode is faster, and its kernels take less time than plain eager's kernels."""
    row = context.row
    is_fusing = is_compiled(row) and is_same_precision(row) and row["generated_kernels"]
    saved = savings(row, context.plain) if is_fusing and is_faster(row) else None
    if saved is None or ends(saved.work)[0] < LEAST:
        return None
    share, least = claim(saved.work, row, context.plain)
    fewer = "" if context.plain is None else evidence.fewer_kernels(row, context.plain)
    texts = {
        "share": f"{least}{numbers.share(share, 1)}",
        "generated": numbers.count(row["generated_kernels"]),
        "count": f"; {fewer}" if fewer else "",
    }
    return Evidence(share, texts)


def slower_kernels(context: Context) -> Evidence | None:
    """A compiled mode is slower, and its kernels take longer than the kernels that they replace.

    Both the timings, with their intervals, and the profile have to show this.
    """
    row, plain = context.row, context.plain
    is_fusing = is_compiled(row) and is_same_precision(row)
    saved = savings(row, plain) if is_fusing and is_slower(row) else None
    if saved is None or plain is None or ends(saved.work)[1] > -LEAST:
        return None
    copies = evidence.input_copies(row, plain)
    new = [kernel for kernel in evidence.only_in(row, plain) if kernel not in copies]
    slower = evidence.pace_ratio(row, plain)
    old_s = evidence.seconds(evidence.only_in(plain, row))
    if not new or slower is None or evidence.seconds(new) / slower < SLOWER * old_s:
        return None
    new_text, old_text = evidence.durations(evidence.seconds(new) / slower, old_s)
    texts = {
        "new": new_text, "old": old_text, "names": evidence.heaviest_names(new, row),
        "remedy": remedies.other_kernels(context, new),
    }  # fmt: skip
    own = product(negative(saved.work), row["speedup"])
    assert own is not None
    return Evidence(claim(own, row, plain)[0], texts)


def near_floor(context: Context) -> Evidence | None:
    """The mode gains little, and its kernels run close to the limit of the device.

    That limit is `floor_s`, the least possible time of the work on this device. It is 70 % or more
    of the kernels' time, even at the upper end of the interval of that time.
    """
    row = context.row
    if not is_no_gain(row) or flags.BEATEN in predicates.flags(row) or not row["floor_s"]:
        return None
    longest_s = _longest_work_s(row)
    if longest_s is None or row["floor_s"] < NEAR * longest_s or row["bound_by"] != "work":
        return None
    fraction = min(1.0, required(row["roofline_fraction"]))
    paired_s = required(row["latency_paired_s"])
    latency_s = ends(paired_s)[1] if is_wide(row["speedup"]) else paired_s.value
    return Evidence(
        row["floor_s"] / latency_s,
        {"fraction": numbers.share(fraction, 1), "limit": _LIMITS[required(row["floor_bound"])],
         "dtype": row["dtype"], "most": numbers.factor(latency_s / row["floor_s"]),
         "remedy": remedies.less_work(context)},
    )  # fmt: skip


_LIMITS = {
    "memory": "reading weights and inputs once, at the bandwidth measured here,",
    "compute": "its arithmetic, at the highest rate measured here,",
}


def _longest_work_s(row: Row) -> float | None:
    device_s, latency_s, dispatch = row["device_s"], row["latency_paired_s"], row["dispatch_share"]
    if predicates.on_cuda(row):
        return None if device_s is None else device_s.high
    if latency_s is None or latency_s.high is None or dispatch is None or dispatch.low is None:
        return None
    return latency_s.high * (1 - dispatch.low) if dispatch.low < 1 else None


def _unchanged(row: Row, plain: Row | None) -> list[Kernel]:
    """Returns the row's kernels that plain eager runs, too.

    On a CPU, those that Inductor did not generate are taken for them, except the user's own.
    """
    given = (kernel for kernel in kernels(row) if not kernel.is_generated)
    mine = [kernel for kernel in given if not evidence.is_own(row, kernel.name)]
    if not predicates.on_cuda(row):
        return mine
    names = {kernel.name for kernel in kernels(plain)}
    return [kernel for kernel in mine if kernel.name in names]


def threads(context: Context) -> Evidence | None:
    """The same case is faster by more than a tenth with another number of threads.

    The intervals of the two latencies have to show this. The latencies come from separate
    processes, so they are compared at equal speed of the machine (pace) if that is known. A tenth
    is asked for because processes of the same code differ by less.
    """
    row = context.row
    compared = ((other, pace.latencies(row, other)) for other in context.threads)
    faster = [(other, both) for other, both in compared if both and _surely_faster(*both)]
    if not faster:
        return None
    best, (mine, theirs) = min(faster, key=lambda pair: pair[1][1].value / pair[1][0].value)
    texts = {
        "here": numbers.counted(row["threads"], "thread", "threads"),
        "mine": numbers.duration_interval(mine),
        "there": numbers.counted(best["threads"], "thread", "threads"),
        "theirs": numbers.duration_interval(theirs),
        "pace": " (both at the machine's full pace)" if pace.has_pace(row, best) else "",
        "threads": str(best["threads"]),
    }
    return Evidence(1 - theirs.value / mine.value, texts)


def _surely_faster(mine: Estimate, theirs: Estimate) -> bool:
    (low_s, _), (_, high_s) = ends(mine), ends(theirs)
    return high_s * (1 + LITTLE) < low_s


CAUSES = (
    Cause(
        Kind.DECISIVE, subnormal_numbers,
        "the model computes with subnormal numbers, for which some kernels of a CPU take many "
        "times longer than for others, in eager or compiled: {places}.",
        "Flush them to zero (torch.set_flush_denormal(True)) and measure again.",
    ),
    Cause(
        Kind.LIMIT, unchanged_kernels,
        "{share} of a call is kernels that it does not change ({names}); if all else took no time, "
        "its speedup would be {most}.",
        "{remedy}",
    ),
    Cause(
        Kind.GAIN, fused_kernels,
        "its kernels, {generated} of them generated, take less time than eager's, which saves "
        "{share} of the baseline's call{count}.",
    ),
    Cause(
        Kind.LOSS, slower_kernels,
        "generated kernels take {new}, and the eager kernels that they replace {old} ({names}).",
        "{remedy}",
    ),
    Cause(
        Kind.LIMIT, near_floor,
        "{limit} takes {fraction} of the kernels' time, so a call in {dtype} can be at most {most} "
        "as fast.",
        "{remedy}",
    ),
    Cause(
        Kind.SETTING, threads,
        "with {here} a call takes {mine}, with {there} {theirs}{pace}.",
        "Use threads={threads} (torch.set_num_threads).",
    ),
)  # fmt: skip

"""Rules on CUDA graphs, and on modes that torch did not run as named.

A rule returns evidence if what its docstring says holds for the row of the context, else None.
"""

from __future__ import annotations

import re

from modescope.analysis.causes import evidence, remedies
from modescope.analysis.causes.outcome import is_compared, is_no_gain
from modescope.analysis.causes.types import Cause, Context, Evidence, Kind
from modescope.analysis.derive.mix import mix_of
from modescope.analysis.format import cells, numbers
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.records.errors import is_of_a_size

LEAST_COPIES = 0.03
"""The smallest share of the device's time at which copies of inputs are named."""

_SIZES = re.compile(r"observed (\d+) distinct sizes")
"""Matches torch's warning (torch/_inductor/cudagraph_utils.py) that it records a graph per size."""


def not_graphed(context: Context) -> Evidence | None:
    """A mode that should run CUDA graphs launched none."""
    row = context.row
    why = _why(row)
    if not predicates.captures(row) or not predicates.not_in_effect(row) or why is None:
        return None
    if predicates.on_cuda(row):
        remedy = "Remove what the reason names; until then compile runs the same code."
    else:
        remedy = "Use compile here, which runs the same code."
    left = f", and a call makes {_launches(row)}" if row["launches"] else ""
    return Evidence(None, {"why": why, "left": left, "remedy": remedy})


def not_in_effect(context: Context) -> Evidence | None:
    """Torch did not run what the mode's name says, for a reason other than missing CUDA graphs."""
    row = context.row
    if not predicates.not_in_effect(row) or not row["in_effect_note"]:
        return None
    return None if not_graphed(context) else Evidence(None, {"why": row["in_effect_note"]})


def partly_graphed(context: Context) -> Evidence | None:
    """CUDA graphs were launched, but torch left out a part of the call.

    `share` of the evidence: the part of a call in which the device waits for the host, which it
    does not do while a graph is replayed.
    """
    row, reasons = context.row, evidence.texts(context.row, "cudagraph_skip_reasons")
    if predicates.not_in_effect(row) or not reasons or not predicates.captures(row):
        return None
    left = f", {_launches(row)} of a call" if row["launches"] else ""
    return Evidence(_waiting(row), {"why": evidence.first_and_count(reasons), "left": left})


def graph_per_size(context: Context) -> Evidence | None:
    """A CUDA graph is recorded for each of several input sizes.

    The number of sizes is not that of torch's reasons for compiling again, because one reason may
    stand for several sizes, and one size may give several reasons. `share` of the evidence: the
    part of a call in which the device waits for the host.
    """
    row = context.row
    if predicates.not_in_effect(row) or not predicates.on_cuda(row) or not predicates.captures(row):
        return None
    warned = [_SIZES.search(text) for text in evidence.texts(row, "torch_warnings")]
    observed = [int(match[1]) for match in warned if match is not None]
    if row["graph"] and (mix := mix_of(row)) is not None:
        observed.append(len({*map(str, mix.padded)}))
    reasons = [
        reason for reason in evidence.texts(row, "recompile_reasons") if is_of_a_size(reason)
    ]
    if not observed and not reasons:
        return None
    pool = row["graph_pool_bytes"]
    texts = {
        "count": numbers.count(max(observed)) if observed else "several",
        "pool": f", which hold {numbers.size(pool)}" if pool else "",
        "why": f" ({evidence.first_and_count(reasons)})" if reasons else "",
    }
    return Evidence(_waiting(row), texts)


def input_copies(context: Context) -> Evidence | None:
    """A compiled mode copies its inputs into a CUDA graph's buffers, 3 % of its device's time."""
    row = context.row
    if predicates.captures(row) != "compiler" or not row["graph_launches"] or not is_compared(row):
        return None
    copied_s = evidence.seconds(evidence.input_copies(row, context.plain))
    device_s = row["device_s"]
    if device_s is None or copied_s < LEAST_COPIES * device_s.value:
        return None
    copies, device = evidence.durations(copied_s, device_s.value)
    texts = {"copies": copies, "device": device}
    return Evidence(copied_s / required(row["latency_s"]).value, texts)


def device_is_the_limit(context: Context) -> Evidence | None:
    """A graph saves launches, but gains little, because the device works for most of the call."""
    row = context.row
    if not predicates.on_cuda(row) or not row["graph_launches"] or not is_no_gain(row):
        return None
    busy = row["device_share"]
    if row["bound_by"] != "work" or busy is None:
        return None
    before = None if context.plain is None else context.plain["launches"]
    saved = "" if not before else f"{before:,.0f} launches of eager became {cells.launches(row)}, "
    texts = {
        "saved": f"{saved}but " if saved else "", "share": numbers.share_interval(busy),
        "remedy": remedies.less_work(context),
    }  # fmt: skip
    return Evidence(min(1.0, busy.value), texts)


def _waiting(row: Row) -> float | None:
    busy = row["device_share"]
    return None if busy is None else max(0.0, 1 - busy.value)


def _launches(row: Row) -> str:
    return numbers.counted(required(row["launches"]), "launch", "launches")


def _why(row: Row) -> str | None:
    """Why no CUDA graph ran, by torch or by the row's note; None if neither gives a reason."""
    reasons = evidence.texts(row, "cudagraph_skip_reasons")
    if reasons:
        return evidence.first_and_count(reasons)
    note = row["in_effect_note"] or ""
    return note if "CUDA graph" in note else None


CAUSES = (
    Cause(
        Kind.DECISIVE, not_graphed,
        "no CUDA graph was launched{left} ({why}).",
        "{remedy}",
    ),
    Cause(
        Kind.DECISIVE, not_in_effect,
        "torch ran something else: {why}.",
        "Use a mode that is in effect here.",
    ),
    Cause(
        Kind.PART, partly_graphed,
        "torch left a part out of its CUDA graphs{left} ({why}).",
        "Remove what the reason names.",
    ),
    Cause(
        Kind.PART, graph_per_size,
        "a CUDA graph is recorded for each input size, {count} so far{pool}{why}.",
        "Pad inputs to few sizes, or use mode=compile, which records no graph.",
    ),
    Cause(
        Kind.LOSS, input_copies,
        "it copies its inputs into the graph's buffers, {copies} of the {device} that the device "
        "works.",
        "Pass inputs in the same tensors, marked by torch._dynamo.mark_static_address, which are "
        "not copied.",
    ),
    Cause(
        Kind.LIMIT, device_is_the_limit,
        "{saved}the device works for {share} of a call.",
        "{remedy}",
    ),
)  # fmt: skip

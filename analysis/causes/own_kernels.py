"""Rules on kernels of the user's own (mode.kernels), which are there because the user wants them.

A rule returns evidence if what its docstring says holds for the row of the context, else None.
"""

from __future__ import annotations

from collections.abc import Iterable

from modescope.analysis.causes import evidence
from modescope.analysis.causes.outcome import is_compiled, is_faster, is_slower
from modescope.analysis.causes.overhead import LEAST
from modescope.analysis.causes.savings import claim, negative, savings
from modescope.analysis.causes.types import Cause, Context, Evidence, Kind
from modescope.analysis.derive import against
from modescope.analysis.estimates import low
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.records.cases import KERNELS
from modescope.bench.stats.estimates import Estimate, ends, product

CALLED, BROKE = "called", "broke"
"""Values of the column `kernel_use`."""


def called_kernels(context: Context) -> Evidence | None:
    """Compiled code calls the kernels as they are, so that nothing is fused into them."""
    row = context.row
    if row["kernel_use"] != CALLED or not is_compiled(row):
        return None
    names = evidence.texts(row, "kernel_names")
    mine = [kernel for kernel in evidence.kernels(row) if kernel.name in names]
    without = next((r for r in context.siblings if predicates.is_without(r, row, KERNELS)), None)
    texts = {"names": _listed(names), "bytes": _more_bytes(row, without), "remedy": ""}
    ratio = without and against.ratio(without, row)
    if without and ratio and ratio.low is not None and low(ratio) > 1:
        texts["remedy"] = (
            f"Leave them out where you compile: {phrases.mode(without)} is "
            f"{numbers.ratio(ratio)} as fast."
        )
    return Evidence(evidence.share_of_call(row, evidence.seconds(mine)) or None, texts)


def broken_by_kernels(context: Context) -> Evidence | None:
    """The graph is broken, and the kernels run between its pieces."""
    if context.row["kernel_use"] != BROKE:
        return None
    return Evidence(None, {"names": _listed(evidence.texts(context.row, "kernel_names"))})


def faster_own_kernels(context: Context) -> Evidence | None:
    """A mode that does not compile is faster, and its kernels save time."""
    saved = _saved(context) if is_faster(context.row) else None
    return None if saved is None or ends(saved)[0] < LEAST else _evidence(context, saved)


def slower_own_kernels(context: Context) -> Evidence | None:
    """A mode that does not compile is slower, and its kernels take longer than torch's."""
    saved = _saved(context) if is_slower(context.row) else None
    if saved is None or ends(saved)[1] > -LEAST:
        return None
    added = product(negative(saved), context.row["speedup"])
    return _evidence(context, required(added))


def _saved(context: Context) -> Estimate | None:
    """Returns what kernels save of the baseline's call, of a row whose own ones run in eager."""
    if context.row["kernel_use"] != CALLED or is_compiled(context.row):
        return None
    found = savings(context.row, context.plain)
    return found.work if found else None


def _evidence(context: Context, part: Estimate) -> Evidence:
    share, least = claim(part, context.row, context.plain)
    names = _listed(evidence.texts(context.row, "kernel_names"))
    return Evidence(share, {"names": names, "share": f"{least}{numbers.share(share, 1)}"})


def _more_bytes(row: Row, without: Row | None) -> str:
    moved, least = row["bytes_accessed"], without and without["bytes_accessed"]
    if not moved or not least or moved <= least or without is None:
        return ""
    there, here = numbers.size(least), numbers.size(moved)
    return f"; it moves {here}, and {phrases.mode(without)} {there}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(evidence.shorten, names))


CAUSES = (
    Cause(
        Kind.PART, called_kernels,
        "compiled code calls {names} as you wrote it, and fuses nothing into it{bytes}.",
        "{remedy}",
    ),
    Cause(
        Kind.PART, broken_by_kernels,
        "{names} breaks the graph, and runs between its pieces.",
        "Register it as an operator that torch.compile can call (docs/own-kernels.md).",
    ),
    Cause(
        Kind.GAIN, faster_own_kernels,
        "{names} takes less time than the kernels of torch that it replaces, which saves {share} "
        "of the baseline's call.",
    ),
    Cause(
        Kind.LOSS, slower_own_kernels,
        "{names} takes longer than the kernels of torch that it replaces, by {share} of a call.",
        "Leave it out: kernels=torch is faster.",
    ),
)  # fmt: skip

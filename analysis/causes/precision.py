"""Rules on precision: casts, faster or slower matrix products, and missing hardware support.

A rule returns evidence if what its docstring says holds for the row of the context, else None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable

from modescope.analysis.causes import evidence
from modescope.analysis.causes.evidence import Kernel, kernels
from modescope.analysis.causes.outcome import is_compared, is_faster, is_slower
from modescope.analysis.causes.types import Cause, Context, Evidence, Kind
from modescope.analysis.derive.select import is_plain
from modescope.analysis.estimates import point
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.records.cpu import BF16, FP16

LEAST_CASTS = 0.1  # of a call: fewer casts are not named
DIFFERS = 1.25  # ratio of the times of the same products in two profiles
TIMES = "{what} ({name}) take {after} {how} and {before} in {than}"
MOST_SIMT = 0.3  # of the kernels' time: products without tensor cores are named above it
LOW = {"bf16": BF16, "fp16": FP16}
"""Low precisions, and the instruction sets of a CPU that compute in them."""
TENSOR_CORES = {"bf16": 8.0, "fp16": 7.0}
"""The compute capability from which a GPU multiplies this precision in tensor cores."""

# Casts alone: eager's operator, Inductor's kernels of nothing but casts, CUDA's copy kernels.
_CAST = re.compile(
    r"^aten::_to_copy$|fused__to_copy(?:_(?:t|view|permute|clone))*_\d+$"
    r"|b?float16_copy_kernel"
)
_COPY = re.compile(r"direct_copy_kernel")
"""CUDA's copies of any kind: those that plain eager does not have are casts."""
_SIMT = re.compile(r"sgemm|_simt_|ffma|f32f32_f32f32_f32|gemmSN", re.IGNORECASE)


_ALSO = {
    "convolutions": re.compile(r"conv|xmma_[fdw](?:prop|grad)_"),
    "attention": re.compile(r"attention|sdpa|fmha|flash", re.IGNORECASE),
}
"""What counts as a product beside matrix products, by names of operators and kernels."""

_TO_TENSOR_CORES = {
    True: "Use dtype=tf32 or dtype=bf16.",
    False: "Use sizes that are multiples of 8.",  # what else keeps a lower precision from them
}


def casts(context: Context) -> Evidence | None:
    """Casts between fp32 and autocast's dtype take a tenth of the call or more."""
    row = context.row
    if not row["autocast"] or not is_compared(row):
        return None
    before = {kernel.name: kernel for kernel in kernels(context.plain)}
    mine = [
        kernel
        for kernel in kernels(row)
        if _CAST.search(kernel.name) or (before and _COPY.search(kernel.name))
    ]
    mine = [_subtract(kernel, before.get(kernel.name)) for kernel in mine]
    share = evidence.share_of_call(row, evidence.seconds(mine))
    if share is None or share < LEAST_CASTS:
        return None
    count = numbers.counted(sum(kernel.count for kernel in mine), "cast", "casts")
    texts = {"share": numbers.share(share, 1), "dtype": row["dtype"], "count": count}
    return Evidence(share, texts)


def no_native_dtype(context: Context) -> Evidence | None:
    """A low precision is slower, and the CPU or GPU has no instructions for this precision."""
    row = context.row
    lack = _missing_support(row)
    if lack is None or not is_slower(row):
        return None
    slower = _products(context)
    rates = _rate_ratio(context)
    if (slower is None or slower.ratio < DIFFERS) and (rates is None or rates >= 1):
        return None
    texts = {
        "lack": lack, "dtype": row["dtype"],
        "slower": _how_slow(row, slower, rates),
    }  # fmt: skip
    return Evidence(None if slower is None else slower.added_share, texts)


def slower_products(context: Context) -> Evidence | None:
    """A precision or fewer bits that the device supports are slower, and so are the products."""
    row, products = context.row, _products(context)
    if not is_slower(row) or _missing_support(row) is not None or products is None:
        return None
    if products.ratio < DIFFERS:
        return None
    texts = {**_times(row, products), "remedy": _other_size(row, _rate_ratio(context))}
    return Evidence(products.added_share, texts)


def faster_products(context: Context) -> Evidence | None:
    """A low precision, or fewer bits, is faster, and its products take less time than eager's."""
    row, products = context.row, _products(context)
    if not is_faster(row) or products is None or products.ratio > 1 / DIFFERS:
        return None
    return Evidence(products.saved_share, _times(row, products))


def no_tensor_cores(context: Context) -> Evidence | None:
    """Matrix products outside of a GPU's tensor cores take 30 % of the kernels' time or more."""
    row = context.row
    if not predicates.on_cuda(row) or row["bound_by"] != "work" or not is_compared(row):
        return None
    simt = [
        kernel for kernel in kernels(row) if _SIMT.search(kernel.name) and "tf32" not in kernel.name
    ]
    whole = row["kernels_s"]
    if not simt or not whole or evidence.seconds(simt) < MOST_SIMT * whole:
        return None
    share = evidence.seconds(simt) / whole
    return Evidence(
        share * (point(row["device_share"]) or 0.0),
        {
            "share": numbers.share(share, 1),
            "name": evidence.shorten(simt[0].name),
            "remedy": _TO_TENSOR_CORES[row["dtype"] == "fp32"],
        },
    )


class _Products:
    """Times of a row's matrix products and of plain eager's, at the same speed of the machine.

    `before_s` is plain eager's time, at the dtype `than`, `after_s` the row's, `ratio` after ÷
    before, `name` the row's heaviest product; `what` says which kinds they are. `added_share`: the
    time added, as a share of the row's call. `saved_share`: the time saved, as a share of plain
    eager's call. Both are at least 0.
    """

    def __init__(self, row: Row, plain: Row, mine: list[Kernel], theirs: list[Kernel], pace: float):
        self.than = plain["dtype"]
        self.before_s = evidence.seconds(theirs)
        self.after_s = evidence.seconds(mine) / pace
        self.ratio = self.after_s / self.before_s
        self.name = max(mine, key=lambda kernel: kernel.seconds).name
        also = [
            what for what, name in _ALSO.items() if any(name.search(kernel.name) for kernel in mine)
        ]
        self.what = phrases.listed(["matrix products", *also])
        added = (self.after_s - self.before_s) * pace / required(row["profiled_span_s"])
        self.added_share = max(0.0, added)
        saved = (self.before_s - self.after_s) / required(plain["profiled_span_s"])
        self.saved_share = max(0.0, saved)


def _products(context: Context) -> _Products | None:
    """Compares the matrix products of the row, if it has fewer bits than fp32, with plain eager's.

    If plain eager was not measured, eager in a CUDA graph stands for it, or the baseline in eager.
    On a CPU only products that run equally often in both profiles count, under one name unless
    weights have fewer bits. None for a row with all bits of fp32, or in plain eager's dtype, or if
    one profile has no such products, or if the relative speed of the machine is unknown.
    """
    row, plain = context.row, context.plain or _eager_in_graph(context) or _baseline(context)
    if plain is None or not (row["quantize"] or row["dtype"] in LOW):
        return None
    if not row["quantize"] and plain["dtype"] == row["dtype"]:
        return None
    before, after = (
        [kernel for kernel in kernels(side) if kernel.is_product] for side in (plain, row)
    )
    if not predicates.on_cuda(row):  # a GPU's kernels have other names in each precision
        same = _runs if row["quantize"] else _runs_of_name
        before, after = _in_both(before, after, same), _in_both(after, before, same)
    pace = evidence.pace_ratio(row, plain)
    if not before or not after or pace is None:
        return None
    return _Products(row, plain, after, before, pace)


def _eager_in_graph(context: Context) -> Row | None:
    """Returns the row of eager in a CUDA graph at the baseline's dtype; None if not measured.

    It runs the same kernels as plain eager.
    """
    same = (context.row["grad"], context.row["baseline_dtype"], False)
    others = (
        other
        for other in context.siblings
        if other["graph"] and other["compile_mode"] == "none" and not other["axes"]
    )
    return next(
        (other for other in others if (other["grad"], other["dtype"], other["autocast"]) == same),
        None,
    )


def _baseline(context: Context) -> Row | None:
    eager = (row for row in context.siblings if predicates.is_control(row) and is_plain(row))
    return next(eager, None)


def _in_both(
    kernels: list[Kernel], others: list[Kernel], same: Callable[[Kernel], Hashable]
) -> list[Kernel]:
    known = set(map(same, others))
    return [kernel for kernel in kernels if same(kernel) in known]


def _runs(kernel: Kernel) -> float:
    return kernel.count


def _runs_of_name(kernel: Kernel) -> tuple[str, float]:
    return kernel.name, kernel.count


def _times(row: Row, products: _Products) -> dict[str, str]:
    after, before = evidence.durations(products.after_s, products.before_s)
    how = f"with {row['quantize']}" if row["quantize"] else f"in {row['dtype']}"
    name = evidence.shorten(products.name)
    return {
        "what": products.what, "name": name, "how": how, "than": products.than, "after": after,
        "before": before,
    }  # fmt: skip


def _missing_support(row: Row) -> str | None:
    """Says what the device lacks for the row's precision; None if nothing, or if unknown."""
    dtype = row["dtype"]
    if dtype not in LOW:
        return None
    if predicates.on_cuda(row):
        capability = row["compute_capability"]
        if capability is None or float(capability) >= TENSOR_CORES[dtype]:
            return None
        return f"this GPU has no {dtype} in its tensor cores (compute capability {capability})"
    sets = row["cpu_instructions"]
    if sets is None or not LOW[dtype].isdisjoint(sets.split()):
        return None
    return f"this CPU has no {dtype} instructions"


def _rate_ratio(context: Context) -> float | None:
    """Returns the highest rate of matrix products measured at the row's precision ÷ plain eager's.

    None if one of them is unknown.
    """
    mine = context.row["ceiling_flops_per_s"]
    theirs = None if context.plain is None else context.plain["ceiling_flops_per_s"]
    return float(mine / theirs) if mine and theirs else None


def _other_size(row: Row, rates: float | None) -> str:
    """Returns the remedy for slow matrix products in a precision that the device supports.

    `rates`: the highest rate of products at this precision ÷ at the baseline's; None: unknown.
    """
    if rates is not None and rates < 1 / DIFFERS:
        return (
            f"Stay with fp32: the highest rate measured for {row['dtype']} products here is "
            f"{rates:.2f} of fp32's."
        )
    return "Stay with fp32 at this size, or try a larger one."


def _how_slow(row: Row, products: _Products | None, rates: float | None) -> str:
    if rates is not None and rates < 1:
        return f"{row['dtype']} products run at {rates:.2f} of fp32's rate"
    assert products is not None
    return TIMES.format(**_times(row, products))


def _subtract(kernel: Kernel, before: Kernel | None) -> Kernel:
    if before is None:
        return kernel
    count, spent_s = kernel.count - before.count, kernel.seconds - before.seconds
    return Kernel(kernel.name, max(0.0, count), max(0.0, spent_s))


CAUSES = (
    Cause(
        Kind.PART, casts,
        "{share} of a call is casts between fp32 and {dtype} ({count} per call).",
        "Run {dtype} weights instead (mode=inference_mode dtype={dtype} baseline.dtype=fp32), "
        "which are cast once.",
    ),
    Cause(
        Kind.PART, no_native_dtype,
        "{lack}, and {slower}.",
        "Stay with fp32 on this device.",
    ),
    Cause(
        Kind.LOSS, slower_products,
        f"{TIMES}.",
        "{remedy}",
    ),
    Cause(
        Kind.GAIN, faster_products,
        f"{TIMES}.",
    ),
    Cause(
        Kind.LIMIT, no_tensor_cores,
        "{share} of the kernels' time is products without tensor cores ({name}).",
        "{remedy}",
    ),
)  # fmt: skip

"""Remedies that depend on the device and on what else the study has measured.

What it has measured as no faster is not advised.
"""

from __future__ import annotations

from collections.abc import Sequence

from modescope.analysis.causes.evidence import Kernel
from modescope.analysis.causes.outcome import is_compiled
from modescope.analysis.causes.types import Context
from modescope.analysis.estimates import high, low
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.records.cpu import BF16
from modescope.bench.records.errors import is_of_a_size
from modescope.bench.stats.estimates import quotient

FASTER_DEVICE = "Only less work, or a faster device, helps."
FOR_SIZES = "Compile once for all sizes (mode=compile-dynamic), or pad to fewer sizes (calls.pad)."
PAD = "Pad to fewer sizes (calls.pad)."
ATEN_ONLY = "torch._inductor.config.max_autotune_gemm_backends = 'ATEN'"


def unrefuted(context: Context, *modes: str) -> list[str]:
    """Returns those of `modes`, which are alike, that the study does not show to be no remedy.

    These are the ones measured as faster than the row at its dtype; all others than the row's own
    if none was measured, or if the row has no interval to compare them with.
    """
    row = context.row
    lows = {sibling["mode"]: _low(sibling) for sibling in context.siblings
            if sibling["dtype"] == row["dtype"] and sibling["mode"] in modes}  # fmt: skip
    if lows and predicates.has_interval(row):
        return [mode for mode in modes if lows.get(mode, 0.0) > high(row["speedup"])]
    return [mode for mode in modes if mode != row["mode"]]


def _low(row: Row) -> float:
    return low(row["speedup"])


def less_work(context: Context) -> str:
    """Returns a sentence that advises how to make the kernels cheaper on this device."""
    row = context.row
    same = [sibling for sibling in context.siblings if sibling["dtype"] == row["dtype"]]
    first = max(same, key=_low, default=None)
    last_resort = FASTER_DEVICE
    if first is not None and low(first["speedup"]) > high(row["speedup"]):
        ratio = quotient(first["speedup"], row["speedup"])
        assert ratio is not None
        than = phrases.variant(row)
        last_resort = f"{phrases.variant(first)} is {numbers.middle(ratio)} as fast as {than}."
    elif not predicates.on_cuda(row):
        last_resort = "Only less work, more threads or a faster device help."
    if row["dtype"] not in ("fp32", "tf32", "bf32"):
        return last_resort
    lower = [sibling for sibling in context.siblings if sibling["dtype"] in ("bf16", "fp16")]
    best = max(lower, key=_low, default=None)
    if best is not None and low(best["speedup"]) > high(row["speedup"]):
        fast = numbers.middle(required(best["speedup"]))
        named, than = phrases.variant(best), phrases.baseline(best)
        return f"Lower the precision: {named} is {fast} as fast as {than}."
    sets = row["cpu_instructions"]
    is_native = predicates.on_cuda(row) or (sets is not None and not BF16.isdisjoint(sets.split()))
    keeps = bool(row.get("dtypes_kept"))  # floats that a lower precision would not change
    if is_native and best is None and not keeps:
        return "Try a lower precision (dtype=bf16)."
    return last_resort


def less_overhead(context: Context) -> str:
    """Advises how to make overhead a smaller part of a call."""
    row, more_work = context.row, "give each call more work, such as a larger batch"
    captures = predicates.captures(row)
    graphs = ("compile-cuda-graph",) if captures else ("reduce-overhead", "cuda-graph")
    left = unrefuted(context, *graphs) if predicates.on_cuda(row) and not row["graph"] else []
    if left:
        what = "the whole call" if captures else "CUDA graphs"
        modes = " or ".join(f"mode={mode}" for mode in left)
        return f"Capture {what} ({modes}), or {more_work}."
    if is_compiled(row) or row["graph"]:
        return f"{more_work[0].upper()}{more_work[1:]}; at this size eager may be the better mode."
    if any(
        sibling["compile_mode"] == "default" and sibling["dtype"] == row["dtype"]
        for sibling in context.siblings
    ):  # were it faster, it would be recommended
        return f"{more_work[0].upper()}{more_work[1:]}."
    return f"Compile it (mode=compile), or {more_work}."


def for_changes(context: Context, reasons: Sequence[str]) -> str:
    """Returns the remedy for compiling again and again, for these reasons of torch."""
    if not reasons or not all(map(is_of_a_size, reasons)):
        return "Keep constant what the reason names."
    once = unrefuted(context, "compile-dynamic")
    return FOR_SIZES if once else PAD


def other_kernels(context: Context, new: Sequence[Kernel]) -> str:
    """Returns the remedy for generated kernels that are slower than those they replace.

    Modes that tune run the same kernels, with CUDA graphs or without.
    """
    tuned = context.row["compile_mode"].startswith("max-autotune")
    left = unrefuted(context, "compile" if tuned else "max-autotune-no-cudagraphs")
    if any(kernel.is_template for kernel in new):
        use = "".join(f"Use mode={mode}, or let" for mode in left) or "Let"
        return f"{use} autotuning choose from ATen's products only ({ATEN_ONLY})."
    leave = "".join(f"Try mode={mode}, or leave" for mode in left) or "Leave"
    return f"{leave} this part of the model uncompiled."

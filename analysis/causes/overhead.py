"""Rules on the time of a call outside its kernels: Python, dispatcher, guards.

A rule returns evidence if what its docstring says holds for the row of the context, else None.
"""

from __future__ import annotations

from modescope.analysis.causes import evidence, remedies
from modescope.analysis.causes.outcome import (
    LEAST_OF_A_LOSS,
    is_compared,
    is_compiled,
    is_faster,
    is_loss,
    is_no_gain,
    is_same_precision,
    is_slower,
)
from modescope.analysis.causes.savings import Savings, claim, negative, savings
from modescope.analysis.causes.types import Cause, Context, Evidence, Kind
from modescope.analysis.derive import profile
from modescope.analysis.derive.select import values_of
from modescope.analysis.estimates import high, low
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.stats.estimates import (
    MARGIN,
    ONE,
    difference,
    ends,
    product,
    quotient,
)

LEAST = 0.03
"""The smallest change of overhead or work that is named, as a share of a call."""

LEAST_GUARDS = 0.05
"""The smallest share of a profiled call at which cache lookup and Python around it are named."""

COMPILED = "cache lookup (guards), Python around the compiled code and launches"


def slow_host(context: Context) -> Evidence | None:
    """The host of a GPU was slow in the rounds of a row, which changes the ratio."""
    row, slower = context.row, predicates.host_slower(context.row)
    if slower is None or predicates.is_control(row) or row["verdict"] is None:
        return None
    gain, device = row["device_gain"], ""
    if gain is not None:
        share = numbers.percent(abs(1 - 1 / gain.value))
        device = (
            f"; the device works {share} {'less' if gain.value > 1 else 'more'} than the baseline's"
        )
    return Evidence(None, {"slower": slower, "device": device})


def less_overhead(context: Context) -> Evidence | None:
    """The mode beats its baseline, and spends less time outside kernels than plain eager."""
    row, plain = context.row, context.plain
    saved = savings(row, plain) if is_faster(row) else None
    if saved is None or plain is None or ends(saved.overhead)[0] < LEAST:
        return None
    share, least = claim(saved.overhead, row, plain)
    fewer = _fewer_operators(row, plain)
    return Evidence(share, {"share": f"{least}{numbers.share(share, 1)}", "operators": fewer})


def compiled_code(context: Context) -> Evidence | None:
    """A compiled mode is faster than the same mode without compiling, by their intervals."""
    row, before = context.row, _uncompiled(context)
    if not is_faster(row) or before is None or low(row["speedup"]) <= high(before["speedup"]):
        return None
    saved = difference(quotient(ONE, before["speedup"]), quotient(ONE, row["speedup"]))
    assert saved is not None
    share, least = claim(saved, row, before)
    if share < LEAST:
        return None
    texts = {
        "share": f"{least}{numbers.share(share, 1)}",
        "mode": phrases.mode(before),
        "how": _how(row, before),
    }
    return Evidence(share, texts)


def more_overhead(context: Context) -> Evidence | None:
    """The mode loses to its baseline, and spends more time outside kernels than plain eager."""
    row = context.row
    saved = savings(row, context.plain) if is_slower(row) else None
    if saved is None or not _adds(row, saved):
        return None
    added = negative(saved.overhead)
    own = product(added, row["speedup"])  # in parts of the row's own call
    assert own is not None
    share, least = claim(own, row, context.plain)
    added_s = claim(added, row, context.plain)[0] * required(row["baseline_latency_s"]).value
    texts = {
        "what": COMPILED if is_compiled(row) else "Python and the dispatcher",
        "added": f"{least}{numbers.duration(added_s)}", "profiled": _in_profile(row),
        "unwaited": _unwaited(row), "remedy": remedies.less_overhead(context),
    }  # fmt: skip
    return Evidence(share, texts)


def _adds(row: Row, saved: Savings) -> bool:
    """Whether `row`, which is slower, surely spends more time outside kernels.

    On a GPU, where device time is measured apart, a loss counts as well that is smaller than LEAST,
    if the device adds at most the part of it that need not be explained.
    """
    most = ends(saved.overhead)[1]
    if most <= -LEAST:
        return True
    if not predicates.on_cuda(row) or not is_loss(row) or most >= 0:
        return False
    lost = 1 / high(row["speedup"]) - 1
    return bool(-ends(saved.work)[0] <= (1 - LEAST_OF_A_LOSS) * lost)


def _in_profile(row: Row) -> str:
    call = profile.compiled_call(row) if is_compiled(row) else None
    if call is None:
        return ""
    span, lookup, wrapper = evidence.durations(call.span_s, call.lookup_s, call.wrapper_s)
    return f" (in a profiled call of {span}, lookup takes {lookup} and Python {wrapper})"


def _unwaited(row: Row) -> str:
    """Says that calls which do not wait for each other lose nothing, where clocks show it.

    Their time (pipelined) is then at most the device time of the baseline, which is the least that
    its own such calls can take.
    """
    gain, device_s, call_s = row["device_gain"], row["device_s"], row["pipelined_s"]
    if gain is None or device_s is None or call_s is None:
        return ""
    if gain.low is None or device_s.low is None or call_s.high is None:
        return ""
    if call_s.high > (1 + MARGIN) * gain.low * device_s.low:
        return ""
    taken, mode = numbers.duration(call_s.value), row["baseline_mode"]
    return f"; calls that do not wait for each other, {taken} each, take no longer than {mode}'s"


def bound_by_overhead(context: Context) -> Evidence | None:
    """The mode gains little, and overhead takes more than half of its call."""
    row = context.row
    if not is_no_gain(row) or row["bound_by"] != "overhead":
        return None
    if predicates.on_cuda(row):
        ratio = required(row["host_per_device"])
        text = f"the host is busy {numbers.ratio(ratio)} as long as the GPU"
        return Evidence(
            1 - min(1.0, 1 / ratio.value),
            {"bound": text, "remedy": remedies.less_overhead(context)},
        )
    dispatch = row["dispatch_share"]
    if dispatch is None:
        return None
    kind = "guards and Python around compiled code take" if is_compiled(row) else "dispatch takes"
    count = row["ops_dispatched"]
    calls = "" if count is None else f" for {numbers.counted(count, 'operator', 'operators')}"
    text = f"{kind} {numbers.share_interval(dispatch)} of a call{calls}"
    remedy = remedies.less_overhead(context)
    return Evidence(min(1.0, dispatch.value), {"bound": text, "remedy": remedy})


def guards(context: Context) -> Evidence | None:
    """Cache lookup and Python around compiled code take a twentieth of a profiled call or more."""
    return None if context.row["regions_called"] else _guards(context)


def regional_guards(context: Context) -> Evidence | None:
    """Blocks that are compiled one by one spend as much as `guards` names on lookup and Python."""
    row, found = context.row, _guards(context)
    if not row["regions_called"] or found is None:
        return None
    others = (other for other in context.siblings if predicates.is_without(other, row, "regions"))
    whole = next(others, None)
    beside = ""
    if whole is not None and row["dispatch_s"] is not None and whole["dispatch_s"] is not None:
        both = evidence.durations(row["dispatch_s"].value, whole["dispatch_s"].value)
        beside = f"; without work a call takes {both[0]}, with {phrases.mode(whole)} {both[1]}"
    texts = {**found.texts, "blocks": f"{row['regions_called']:.0f}", "beside": beside}
    return Evidence(found.share, texts)


def _guards(context: Context) -> Evidence | None:
    row, call = context.row, profile.compiled_call(context.row)
    if call is None or not is_compared(row) or call.overhead_share < LEAST_GUARDS:
        return None
    span, lookup, wrapper = evidence.durations(call.span_s, call.lookup_s, call.wrapper_s)
    share = numbers.share(call.overhead_share, 1)
    texts = {"span": span, "lookup": lookup, "wrapper": wrapper, "share": share}
    return Evidence(call.overhead_share, texts)


def _uncompiled(context: Context) -> Row | None:
    row = context.row
    if not is_compiled(row):
        return None
    if is_same_precision(row):
        return context.plain
    same = ("grad", "dtype", "autocast", "quantize")
    others = (other for other in context.siblings if not (is_compiled(other) or other["graph"]))
    return next((other for other in others if values_of(other, same) == values_of(row, same)), None)


def _how(row: Row, before: Row) -> str:
    """What compiling saved: `, by less overhead (115 operators became 11)`; empty if unknown."""
    saved = savings(row, before)
    parts = []
    if saved is not None and ends(saved.overhead)[0] >= LEAST:
        parts.append(f"less overhead{_fewer_operators(row, before)}")
    if saved is not None and ends(saved.work)[0] >= LEAST:
        fewer = evidence.fewer_kernels(row, before)
        parts.append(f"cheaper kernels ({fewer})" if fewer else "cheaper kernels")
    if parts:
        return f", by {phrases.listed(parts)}"
    return ""


def _fewer_operators(row: Row, before: Row) -> str:
    fewer = evidence.became(row, before, "ops_dispatched", "operators")
    return f" ({fewer})" if fewer else ""


CAUSES = (
    Cause(
        Kind.DECISIVE, slow_host,
        "the host ran at {slower}× its usual time: undecided{device}.",
        "Stop other programs and measure it again.",
    ),
    Cause(
        Kind.GAIN, less_overhead,
        "it spends less beside the kernels, which saves {share} of the baseline's call{operators}.",
        inferred=True,
    ),
    Cause(
        Kind.GAIN, compiled_code,
        "compiled code saves {share} of the baseline's call beyond what {mode} saves{how}.",
        inferred=True,
    ),
    Cause(
        Kind.LOSS, more_overhead,
        "{what} add {added} to a call, beyond eager's own overhead{profiled}{unwaited}.",
        "{remedy}",
        inferred=True,
    ),
    Cause(
        Kind.LIMIT, bound_by_overhead,
        "{bound}, which this mode does not shorten enough.",
        "{remedy}",
        inferred=True,
    ),
    Cause(
        Kind.PART, guards,
        "cache lookup (guards) takes {lookup} and Python around the compiled code {wrapper} of a "
        "profiled call of {span}, together {share}.",
        "Compile fewer, larger regions; explain=true also tries torch's filters of guards.",
        inferred=True,
    ),
    Cause(
        Kind.PART, regional_guards,
        "each of {blocks} blocks looks up its own compiled code: guards take {lookup} and Python "
        "around the code {wrapper} of a profiled call of {span}, together {share}{beside}.",
        "Compile the whole model (mode=compile), or fewer, larger blocks.",
    ),
)  # fmt: skip

"""Rules on calls without gradients: what leaving out autograd saves, and what else it changes.

A rule returns evidence if what its docstring says holds for the row of the context, else None.
"""

from __future__ import annotations

from modescope.analysis.causes import evidence
from modescope.analysis.causes.evidence import Kernel
from modescope.analysis.causes.outcome import is_compiled, is_faster, is_same_precision
from modescope.analysis.causes.overhead import LEAST
from modescope.analysis.causes.savings import claim, saved_by
from modescope.analysis.causes.types import Cause, Context, Evidence, Kind
from modescope.analysis.derive.select import values_of
from modescope.analysis.estimates import high, low
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.stats.estimates import ends, quotient

GRADS = ("no_grad", "inference_mode")

LEAST_PATH = 0.1
"""The least share of a call of a kernel that the baseline lacks, to be named as another path."""


def other_path(context: Context) -> Evidence | None:
    """no_grad or inference_mode alone beats the baseline, by kernels that the baseline lacks.

    So does `nn.TransformerEncoderLayer`, whose fast path takes no gradients. The row itself runs
    one of these kernels, too.
    """
    alone = _without_grad(context)
    other = [] if alone is None else _other_kernels(alone, context)
    mine = {kernel.name for kernel in evidence.kernels(context.row)}
    if alone is None or mine.isdisjoint(kernel.name for kernel in other):
        return None
    names = evidence.heaviest_names(other, alone)
    found = _saved(context, alone)
    return found and Evidence(found.share, {**found.texts, "names": names})


def no_autograd(context: Context) -> Evidence | None:
    """no_grad or inference_mode alone beats the baseline, and not by kernels that it lacks."""
    alone = _without_grad(context)
    if alone is None or _other_kernels(alone, context):
        return None
    return _saved(context, alone)


def _without_grad(context: Context) -> Row | None:
    """Returns the row without gradients and without the rest of the mode, if both are faster."""
    row, plain = context.row, context.plain
    if not is_faster(row) or row["grad"] not in GRADS or row["phase"] != "inference":
        return None
    is_alone = is_same_precision(row) and not is_compiled(row) and not row["graph"]
    alone = row if is_alone else plain
    if alone is None or not is_faster(alone) or row["baseline_mode"] != "eager":
        return None
    return alone


def _other_kernels(alone: Row, context: Context) -> list[Kernel]:
    """Returns kernels of `alone` that the baseline lacks, each of LEAST_PATH of a call or more.

    One of that share would be among the baseline's heaviest if it ran there.
    """
    baseline = next(filter(predicates.is_control, context.siblings), None)
    if baseline is None or not evidence.kernels(baseline):
        return []
    others = evidence.only_in(alone, baseline)
    return [one for one in others if one.seconds >= LEAST_PATH * required(alone["profiled_span_s"])]


def _saved(context: Context, alone: Row) -> Evidence | None:
    gain = required(alone["speedup"])
    saved = saved_by(gain)
    if ends(saved)[0] < LEAST:
        return None
    share, least = claim(saved, alone)
    rest = f" ({alone['grad']} without the rest: {numbers.ratio(gain)})"
    texts = {"share": f"{least}{numbers.share(share, 1)}",
             "alone": "" if alone is context.row else rest}  # fmt: skip
    return Evidence(share, texts)


def grad_left_on(context: Context) -> Evidence | None:
    """Inference runs with gradients enabled, and the same mode without gradients is faster."""
    row = context.row
    if row["phase"] != "inference" or row["grad"] != "enabled":
        return None
    if not predicates.has_interval(row):
        return None
    same = (
        "dtype",
        "autocast",
        "compile_mode",
        "graph",
        "axes",
        "compile_options",
        "compile_cache",
    )
    others = [
        other
        for other in context.siblings
        if other["grad"] in GRADS
        and values_of(other, same) == values_of(row, same)
        and low(other["speedup"]) * (1 - LEAST) > high(row["speedup"])
    ]
    if not others:
        return None
    best = max(others, key=lambda other: low(other["speedup"]))
    gain = quotient(best["speedup"], row["speedup"])
    assert gain is not None
    share, _ = claim(saved_by(gain), best, row)
    texts = {"mode": phrases.mode(best), "gain": numbers.middle(gain), "grad": best["grad"]}
    return Evidence(share, texts)


CAUSES = (
    Cause(
        Kind.LIMIT, grad_left_on,
        "autograd is on, which inference does not need; without it ({mode}) the same call is "
        "{gain} as fast.",
        "Call the model under torch.{grad}() (mode={mode}).",
    ),
    Cause(
        Kind.GAIN, other_path,
        "without gradients another path is taken through the model ({names}), which with autograd "
        "left out saves {share} of the baseline's call{alone}.",
        inferred=True,
    ),
    Cause(
        Kind.GAIN, no_autograd,
        "running without gradients saves {share} of the baseline's call{alone}.",
        inferred=True,
    ),
)  # fmt: skip

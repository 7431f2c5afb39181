"""Rules on what torch.compile did: graph breaks, recompilations, operators left to eager."""

from __future__ import annotations

import json

from modescope.analysis.causes import evidence
from modescope.analysis.causes.types import HINT, PART, Case, Cause, Evidence
from modescope.analysis.causes.verdicts import is_compiled
from modescope.analysis.derive import profile
from modescope.analysis.format import numbers, phrases

LEAST_FALLBACKS = 0.1  # of a call: operators that Inductor leaves to eager are named above it


def recompiles(case: Case) -> Evidence | None:
    """Torch compiled again within the timed window, or gave reasons for compiling again."""
    row, reasons = case.row, evidence.texts(case.row, "recompile_reasons")
    timed = row["recompiles"] or 0
    if row["calls"] and not timed:  # new sizes compile, as `size_compiles` says
        return None
    if not is_compiled(row) or not (timed or reasons):
        return None
    when = " while calls were timed" if timed else ""
    times = numbers.counted(timed or len(reasons), "time", "times")
    return Evidence(1.0 if timed else None, {"times": times, "when": when, "why": _why(case)})


def graph_breaks(case: Case) -> Evidence | None:
    """The graph is broken. With functions in eager, its share is that of their kernels."""
    row = case.row
    if not row["graph_breaks"]:
        return None
    sites = json.loads(row["graph_break_reasons"] or "[]")
    in_eager = evidence.texts(row, "eager_functions")
    at = [f"{one['reason']}{' at ' + one['place'] if one['place'] else ''}" for one in sites]
    figures = {
        "breaks": numbers.counted(row["graph_breaks"], "graph break", "graph breaks"),
        "where": f": {evidence.first_of(at)}" if at else "",
        "eager": f"; in eager: {', '.join(in_eager)}" if in_eager else "",
    }
    return Evidence(_share_of_breaks(case, bool(in_eager)), figures)


def fallbacks(case: Case) -> Evidence | None:
    """Operators for which Inductor has no code of its own take a tenth of the call or more."""
    row = case.row
    names = {_operator(name) for name in evidence.texts(row, "fallback_kernels")}
    mine = [one for one in evidence.kernels(row) if one.name in names]
    share = evidence.share_of_call(row, evidence.seconds(mine))
    if not mine or share is None or share < LEAST_FALLBACKS:
        return None
    figures = {"share": numbers.share(share, 1), "names": evidence.named(mine, row)}
    return Evidence(share, figures)


def _share_of_breaks(case: Case, in_eager: bool) -> float | None:
    """What compiling as a whole could save at most; None where unknown.

    Guards and Python of the pieces, and with functions in eager their kernels other than matrix
    products, which are a library's in compiled code, too. On CUDA guards and Python alone: kernels
    run while the host works, so their times cannot be added.
    """
    row = case.row
    call = profile.compiled_call(row)
    around = None if call is None else call.overhead_share
    if not in_eager or phrases.on_cuda(row):
        return around
    left = [one for one in evidence.kernels(row) if not (one.is_generated or one.is_product)]
    replaceable = evidence.share_of_call(row, evidence.seconds(left)) if left else None
    known = [share for share in (around, replaceable) if share is not None]
    return min(1.0, sum(known)) if known else None


def _operator(name: str) -> str:
    """`aten::sort` for `aten.sort.stable` or `torch.ops.aten.sort.default`."""
    parts = name.removeprefix("torch.ops.").split(".")
    return name if len(parts) < 2 else "::".join(parts[:2])


def _why(case: Case) -> str:
    """`: tensor 'x' size mismatch (and 2 more)`; empty without a reason."""
    reasons = evidence.texts(case.row, "recompile_reasons")
    return f": {evidence.first_of(reasons)}" if reasons else ""


def compiled_by_model(case: Case) -> Evidence | None:
    """Code of the model compiles a part of it in every mode, the baseline's included."""
    graphs = case.row.get("own_graphs")
    if not graphs:
        return None
    return Evidence(None, {"graphs": numbers.counted(graphs, "graph", "graphs")})


CAUSES = (
    Cause(
        "compiled_by_model", HINT, compiled_by_model,
        "the model compiles a part of itself ({graphs}) in eager too, so a gain of compiling it is "
        "larger than against plain eager code.",
        "",
        "own_graphs above 0",
    ),
    Cause(
        "recompiles", PART, recompiles,
        "torch compiled again {times}{when}{why}.",
        "Keep constant what the reason names, or compile for sizes that change (dynamic=True).",
        "recompiles in the timed window, or recompile_reasons",
    ),
    Cause(
        "graph_breaks", PART, graph_breaks,
        "the model is compiled in pieces, with {breaks}{where}{eager}.",
        "Remove what breaks the graph; model.fullgraph=true makes each break an error.",
        "graph_breaks above 0",
    ),
    Cause(
        "fallbacks", PART, fallbacks,
        "{share} of a call is operators that Inductor leaves to eager ({names}).",
        "Express them by operators that Inductor generates code for.",
        "fallback_kernels take a tenth of a call, or more",
    ),
)  # fmt: skip
"""Causes in what the compiler did."""

"""Rules on what is made before a model is called: weights packed into code, packages.

Each compares a mode with another that compiles in the process and keeps the weights outside.
A rule returns evidence if what its docstring says holds for the row of the context, else None.
"""

from __future__ import annotations

from modescope.analysis.causes import savings
from modescope.analysis.causes.outcome import is_faster
from modescope.analysis.causes.types import Cause, Context, Evidence, Kind
from modescope.analysis.derive.select import values_of
from modescope.analysis.estimates import high, low
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.bench.stats.estimates import ONE, difference, quotient

LEAST = 0.03
"""The smallest saving that is named, as a share of the baseline's call."""


def packed_weights(context: Context) -> Evidence | None:
    """Weights were packed, and the mode is faster than the same mode without frozen weights."""
    row = context.row
    if not row["packed_weights"]:
        return None
    without = (one for one in context.siblings if predicates.is_without(one, row, "freezing"))
    before = next(without, None)
    saved = _saved_beside(row, before)
    if saved is None or before is None:
        return None
    weights = numbers.counted(row["packed_weights"], "weight", "weights")
    kept = numbers.count(row["frozen_weights"])
    return Evidence(saved[0], {**saved[1], "weights": weights, "frozen": kept})


def called_without_guards(context: Context) -> Evidence | None:
    """A package is faster than the same model compiled in the process in the default mode."""
    row = context.row
    if phrases.ahead_s(row) is None:
        return None
    before = next((one for one in context.siblings if _is_compiled_in_process(one, row)), None)
    saved = _saved_beside(row, before)
    if saved is None or before is None:
        return None
    dispatch, mode = before["dispatch_s"], phrases.mode(before)
    beside = (
        ""
        if dispatch is None
        else (f" (without work a call of {mode} takes {numbers.duration(dispatch.value)})")
    )
    return Evidence(saved[0], {**saved[1], "beside": beside})


def _is_compiled_in_process(other: Row, row: Row) -> bool:
    same = ("grad", "dtype", "autocast", "graph", "axes", "compile_options")
    return other["compile_mode"] == "default" and values_of(other, same) == values_of(row, same)


def _saved_beside(row: Row, before: Row | None) -> tuple[float, dict[str, str]] | None:
    """What `row` saves of the baseline's call beyond `before`, as a share and as texts.

    None if it is not surely faster than `before` by their intervals, or saves less than LEAST.
    """
    if before is None or not is_faster(row) or low(row["speedup"]) <= high(before["speedup"]):
        return None
    saved = difference(quotient(ONE, before["speedup"]), quotient(ONE, row["speedup"]))
    assert saved is not None
    share, least = savings.claim(saved, row, before)
    if share < LEAST:
        return None
    return share, {"share": f"{least}{numbers.share(share, 1)}", "mode": phrases.mode(before)}


CAUSES = (
    Cause(
        Kind.GAIN, packed_weights,
        "Inductor packed {weights} into the layout of the library that multiplies by them, as "
        "{frozen} are constants of its code; that saves {share} of the baseline's call beyond "
        "what {mode} saves.",
    ),
    Cause(
        Kind.GAIN, called_without_guards,
        "a package saves {share} of the baseline's call beyond what {mode} saves: it is called "
        "without looking up code (guards) and without Python around it{beside}.",
    ),
)  # fmt: skip

"""Rules on calls of different sizes: what compiles, what falls back to eager, what padding adds."""

from __future__ import annotations

from modescope.analysis.causes.types import COST, LOSS, PART, Case, Cause, Evidence
from modescope.analysis.causes.verdicts import is_compiled
from modescope.analysis.derive.mix import mix_of
from modescope.analysis.format import numbers, phrases

MOST_NUMBERS = 6  # of calls that compile, named
LEAST_PADDING = 1.05
FOR_SIZES = "Compile once for all sizes (mode=compile-dynamic), or pad to fewer sizes (calls.pad)."


def eager_fallback(case: Case) -> Evidence | None:
    """Torch reached its limit of compilations, and runs some of the calls in eager."""
    mix = mix_of(case.row)
    if mix is None or mix.gave_up_at is None or not mix.eager or not is_compiled(case.row):
        return None
    reasons = [one.reason for one in mix.compiles if one.reason]
    by_size = bool(reasons) and "size mismatch" in reasons[-1]
    figures = {
        "at": f"{mix.gave_up_at}", "eager": f"{len(mix.eager)}", "calls": f"{len(mix.calls)}",
        "times": numbers.counted(len(mix.compiles), "compilation", "compilations"),
        "why": f": {reasons[-1]}" if reasons else "",
        "remedy": FOR_SIZES if by_size else "Keep constant what the reason names.",
    }  # fmt: skip
    return Evidence(mix.eager_share, figures)


def size_compiles(case: Case) -> Evidence | None:
    """Torch compiled in more than one call of the first pass."""
    mix = mix_of(case.row)
    if mix is None or len(mix.compiles) < 2:
        return None
    named = [f"{one.number}" for one in mix.compiles[:MOST_NUMBERS]]
    more = len(mix.compiles) - len(named)
    reasons = [one.reason for one in mix.compiles if one.reason]
    figures = {
        "times": f"{len(mix.compiles)}", "calls": f"{len(mix.calls)}",
        "numbers": phrases.listed([*named, *([f"{more} more"] if more else [])]),
        "seconds": numbers.duration(sum(one.seconds for one in mix.compiles)),
        "why": f": {reasons[-1]}" if reasons else "",
    }  # fmt: skip
    return Evidence(None, figures)


def padding(case: Case) -> Evidence | None:
    """The case's calls are padded to larger sizes than the baseline's."""
    mix = mix_of(case.row)
    if mix is None or mix.padding < LEAST_PADDING:
        return None
    return Evidence(1 - 1 / mix.padding, {"times": f"{mix.padding:.2f}"})


CAUSES = (
    Cause(
        "eager_fallback", PART, eager_fallback,
        "torch gives up at call {at}, after {times}{why}; {eager} of {calls} calls of a pass run "
        "in eager since then.",
        "{remedy}",
        "eager_calls of a mode that compiles",
    ),
    Cause(
        "padding", LOSS, padding,
        "padding makes its calls {times} times as large as those of the baseline.",
        "More buckets pad less; each is compiled once.",
        "calls_pad makes calls 5 % larger, or more",
    ),
    Cause(
        "size_compiles", COST, size_compiles,
        "torch compiles in {times} of the first {calls} calls ({numbers}), which take {seconds}"
        "{why}.",
        "Warm up with every size, or compile once for all (mode=compile-dynamic).",
        "two entries of compiled_calls, or more",
    ),
)  # fmt: skip
"""Causes in the sizes of calls."""

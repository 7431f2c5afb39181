"""Rows against another mode than the baseline that they were paired with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from modescope.analysis.changes.verdicts import LEAST_PROCESSES
from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.metrics import formulas, mode_ratios
from modescope.analysis.metrics.mode_ratios import BETWEEN_PROCESSES
from modescope.analysis.rows.select import SAME_BASELINE, per_row, values_of
from modescope.bench.records.errors import UsageError
from modescope.bench.stats import estimates

COLUMNS = {
    "against_mode": "the mode that this row is compared with: that of a row with the same work, "
    "machine and baseline, or the baseline itself; null where there is no such row",
    "against_dtype": "dtype of that row",
    "against_speedup": "speedup of this row ÷ speedup of that row, which cancels their baseline; 1 "
    "for that row itself; the speedup where that row is the baseline",
    "against_speedup_ci_low": "lower end of its interval. Where each of the two rows has "
    f"{numbers.count(LEAST_PROCESSES)} processes or more with a speedup, the 95 % interval of the "
    "spread between processes (Welch's); else the worst case of both intervals, widened by "
    f"{numbers.percent(BETWEEN_PROCESSES)}, as speedups of the same code differ so much between "
    "processes; where one of the two is the baseline, the interval of the paired speedup",
    "against_speedup_ci_high": "upper end of that interval",
    "against_verdict": "as verdict, by the interval of against_speedup; null for that row itself",
    "against_break_even_calls": "as break_even_calls, with that row in place of the baseline",
    "against_processes": "number of processes behind against_speedup: those of the row that has "
    "fewer; null for that row itself, and where one of the two is the baseline, so that both were "
    "timed in the same rounds",
}
"""The columns that `against` adds."""

_NEEDED = tuple(
    dict.fromkeys(
        (
            *mode_ratios.NEEDED, *SAME_BASELINE, "apart", "compile_cache", "status", "reason",
            "in_effect", "in_effect_note", "budget", "first_call_s", "baseline_first_call_s",
        )
    )
)  # fmt: skip


def against(rows: pd.DataFrame, wanted: str) -> pd.DataFrame:
    """The rows with COLUMNS, each compared with the row of mode `wanted` of the same work.

    `wanted`: a mode as the table names it, alone or with a dtype (`compile bf16`). Of several
    dtypes that of the baseline is used, of several compiler caches the row's own. UsageError of one
    sentence if no row has that mode or may be compared with, or if several are left.
    """
    every = phrases.as_rows(rows[list(_NEEDED)])
    groups = phrases.grouped((values_of(row, SAME_BASELINE), row) for row in every)
    usable = {key: _usable(members, wanted) for key, members in groups.items()}
    others = [_reference(row, usable[values_of(row, SAME_BASELINE)], wanted) for row in every]
    if not any(others):
        raise UsageError(f"--against {wanted}: {_why_none(every, wanted)}")
    compared = list(zip(every, others, strict=True))
    ratios = [mode_ratios.ratio(row, other) if other else None for row, other in compared]

    def column(values: Iterable[Any], dtype: str = "float64") -> pd.Series:
        return per_row(rows, values, dtype)

    result = rows.assign(
        against_mode=column((other and phrases.mode(other) for other in others), "object"),
        against_dtype=column((other and other["dtype"] for other in others), "object"),
        against_speedup=column(one and one.value for one in ratios),
        against_speedup_ci_low=column(one and one.low for one in ratios),
        against_speedup_ci_high=column(one and one.high for one in ratios),
        against_verdict=column(map(estimates.verdict, ratios), "object"),
        against_processes=column(_processes(row, other) for row, other in compared),
    )
    first_s = column(other and other["first_call_s"] for other in others)
    calls = formulas.break_even_calls(_in_place(result).assign(baseline_first_call_s=first_s))
    return result.assign(against_break_even_calls=calls)


def in_place_of_the_baseline(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `against` that have a row to be compared with, as a table shows them.

    That row takes the place of the baseline, in the columns that a terminal's table reads.
    """
    shown = rows[rows["against_mode"].notna()]
    calls = shown["against_break_even_calls"]
    return _in_place(shown).assign(break_even_calls=calls, speedup_same_grad=float("nan"))


def _in_place(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(
        baseline_mode=rows["against_mode"],
        baseline_dtype=rows["against_dtype"],
        speedup=rows["against_speedup"],
        speedup_ci_low=rows["against_speedup_ci_low"],
        speedup_ci_high=rows["against_speedup_ci_high"],
        verdict=rows["against_verdict"],
    )


def _usable(rows: Sequence[Row], wanted: str) -> list[Row]:
    """The rows of that mode that others may be compared with."""
    named = (row for row in rows if wanted in _names(row))
    return [row for row in named if phrases.why_left_out(row) is None]


def _names(row: Row) -> set[str]:
    """What a user may call a row: `compile`, `compile fp32`, `compile (fullgraph=false)`, ..."""
    modes = {str(row["mode"]), phrases.mode(row)}
    return modes | {f"{mode} {row['dtype']}" for mode in modes}


def _reference(row: Row, usable: Sequence[Row], wanted: str) -> Row | None:
    """The row to compare with; the baseline as a row, if that is wanted."""
    if wanted in (row["baseline_mode"], phrases.baseline(row)):
        return {
            **row,
            "run_id": None,
            "mode": row["baseline_mode"],
            "dtype": row["baseline_dtype"],
            "apart": None,
            "first_call_s": row["baseline_first_call_s"],
        }
    left = [each for each in usable if each["compile_cache"] == row["compile_cache"]] or usable
    left = [each for each in left if each["dtype"] == row["baseline_dtype"]] or left
    if len(left) > 1:
        names = phrases.listed([phrases.variant(each) for each in left])
        raise UsageError(
            f"--against {wanted}: {phrases.work(row)} was measured in {names}; write the mode and "
            f"its precision in quotes: --against '{phrases.variant(left[0])}'"
        )
    return left[0] if left else None


def _processes(row: Row, other: Row | None) -> int | None:
    """The processes behind a ratio; None without one, for a row to itself, and if it is paired."""
    if other is None or row["run_id"] == other["run_id"] or mode_ratios.is_paired(row, other):
        return None
    return mode_ratios.processes(row, other) or None


def _why_none(rows: Sequence[Row], wanted: str) -> str:
    named = [row for row in rows if wanted in _names(row)]
    if named:
        return f"no row in this mode may be compared with ({phrases.why_left_out(named[-1])})"
    modes = {phrases.mode(row) for row in rows if phrases.why_left_out(row) is None}
    modes |= {row["baseline_mode"] for row in rows if row["baseline_mode"] is not None}
    if not modes:
        return "no row may be compared with, as none has an interval and was in effect"
    listed = phrases.listed(sorted(modes))
    return f"no row has this mode; there is {listed}, alone or with a precision ('compile fp32')"

"""Speedups over a mode that the user names, in place of the baseline.

A row and the row of that mode were not timed in the same rounds. But both have a speedup over the
same baseline, so the quotient of these is the speedup of the first row over the second. Speedups of
the same code differ between processes by more than their intervals, which describe one process. If
both rows have LEAST_PROCESSES processes or more, the ratio has Welch's interval over processes
(`analysis.changes`). With fewer, the spread between processes is unknown: the interval is the worst
case of both rows' intervals, widened by BETWEEN_PROCESSES. It is so, too, if one row is in tf32 and
the other is not: the former then stands over eager in fp32 by its chained speedup.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from modescope.analysis import changes
from modescope.analysis.changes import LEAST_PROCESSES, LogChange
from modescope.analysis.derive import over_fp32
from modescope.analysis.derive.formulas import baseline_first_s, break_even_calls
from modescope.analysis.derive.select import (
    OPTIONS,
    SAME_BASELINE,
    TRUSTED,
    codes,
    is_plain,
    per_row,
    trusted,
    values_of,
)
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped, required
from modescope.bench.records.cases import PLAIN_EAGER
from modescope.bench.records.errors import UsageError
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate

BETWEEN_PROCESSES = 0.03
"""How much two processes of the same code may differ in speedup (0.03: 3 %).

In results/reference/amd-epyc-2-cores, the speedups of four compiled rows of the MLP that ran the
same code lie within 2.3 % (of the transformer, within 0.4 %). Four values span 2.06 standard
deviations on average, so two processes differ by more than 3 % in 6 % of pairs.
"""

_WIDENING = Estimate(1.0, 1 / (1 + BETWEEN_PROCESSES), 1 + BETWEEN_PROCESSES)

NEEDED = (
    "run_id", "mode", "dtype", "baseline_mode", "baseline_dtype", "budget_rank", "speedup",
    "speedup_process_spread", "speedup_processes",
)  # fmt: skip
"""The columns that `ratio` reads."""

COLUMNS = {
    "against_mode": "mode of the other row, which has the same work, machine and baseline, or is "
    "the baseline; null if there is none",
    "against_dtype": "dtype of that row",
    "against_speedup": "speedup of this row ÷ speedup of that row. Its interval: of the spread "
    f"between {numbers.count(LEAST_PROCESSES)} processes or more of each (Welch's); else the worst "
    f"case of both, widened by {numbers.percent(BETWEEN_PROCESSES)}; the paired one if one of the "
    "two is the baseline",
    "against_verdict": "as verdict, by that interval; null for that row itself",
    "against_break_even_calls": "as break_even_calls, with that row in place of the baseline",
    "against_processes": "processes behind against_speedup, of the row with fewer; null if both "
    "were timed in the same rounds",
    "against_is_chained": "whether one of the two speedups is chained_speedup, because one row is "
    "in tf32 and the other is not; null if there is no other row",
}
"""The columns that `against` adds."""

HOLDS = {
    **dict.fromkeys(COLUMNS, "float | None"),
    **dict.fromkeys(("against_mode", "against_dtype"), "str | None"),
    "against_verdict": "Verdict | None",
    "against_speedup": "Estimate | None",
    "against_is_chained": "bool | None",
}
"""The types of their values in a row."""

_OF_MODE = (*PLAIN_EAGER, "fullgraph", "compile_options")  # a mode's settings besides grad


def ratio(row: Row, other: Row) -> Estimate | None:
    """Returns the speedup of `row` over `other`; above 1 means that `row` is faster.

    Both rows have equal values in the columns SAME_BASELINE. If one row is the baseline, the ratio
    was measured in paired rounds, so its interval is not widened. A row has the ratio 1 to itself,
    without an interval. None if a speedup is unknown or if either row has a smoke budget.
    """
    if row["run_id"] == other["run_id"]:
        return Estimate(1.0, None, None)
    if predicates.is_smoke(row) or predicates.is_smoke(other):
        return None
    own, of_other = row["speedup"], other["speedup"]
    if predicates.is_control(other):
        return own
    if predicates.is_control(row):
        return estimates.quotient(estimates.ONE, of_other)
    if own is None or of_other is None:
        return None
    return _across(row, other, estimates.quotient(own, of_other), changes.negative)


def chain(row: Row, link: Row) -> Estimate | None:
    """Returns the speedup of `row` over the baseline of `link`, whose mode is that of `row`.

    Both rows have the same work and machine. None if a speedup is unknown or if either row has a
    smoke budget. `analysis.derive.chained` says which rows are linked, and why this interval.
    """
    own, of_link = row["speedup"], link["speedup"]
    if predicates.is_smoke(row) or predicates.is_smoke(link) or own is None or of_link is None:
        return None
    return _across(row, link, estimates.product(own, of_link), lambda mean: mean)


def _across(
    row: Row, other: Row, worst_case: Estimate | None, enter: Callable[[LogChange], LogChange]
) -> Estimate | None:
    """Returns what was computed from the speedups of two rows, with the interval of the module.

    `worst_case` is the result with its worst-case interval. `enter` returns what the logarithm of
    the other row's speedup adds to that of the result.
    """
    if processes(row, other) < LEAST_PROCESSES or _is_chained(row, other):
        return estimates.product(worst_case, _WIDENING)
    if worst_case is None or worst_case.low is None:
        return worst_case
    change = changes.total(_mean(row), enter(_mean(other)))
    value, low, high = (math.exp(number) for number in (change.value, change.low, change.high))
    return Estimate(value, low, high)


def processes(row: Row, other: Row) -> int:
    """Returns the smaller of both rows' numbers of processes that measured a speedup."""
    return int(min(row["speedup_processes"], other["speedup_processes"]))


def _mean(row: Row) -> LogChange:
    count = row["speedup_processes"]
    error = required(row["speedup_process_spread"]) / math.sqrt(count)
    mean, freedom = math.log(required(row["speedup"]).value), count - 1.0
    return LogChange(np.asarray(mean), np.asarray(error), np.asarray(freedom))


def same_grad(rows: pd.DataFrame) -> pd.Series:
    """Returns for each row an Estimate of its speedup over plain eager with the same grad axis.

    The grad axis is how gradients are switched off, if at all (no_grad, ...), so the rest of the
    mode gains this. Plain eager is at the baseline's precision. If several rows are plain eager,
    the one with this row's other options is used. Null for the plain eager row itself, and if it is
    unknown.
    """
    key = ("_same_baseline", "grad")
    not_of_mode = (name for name in OPTIONS if name not in {*SAME_BASELINE, "grad", *_OF_MODE})
    cases = as_rows(rows[list({*PLAIN_EAGER, "training", *NEEDED})])
    of_key, of_option = codes(rows, key).tolist(), codes(rows, (*key, *not_of_mode)).tolist()
    plain = [is_plain(row) and row["dtype"] == row["baseline_dtype"] for row in cases]
    good = set(trusted(rows[[*TRUSTED, "run_id"]])["run_id"])
    of_options = {
        of_option[at]: at for at, row in enumerate(cases) if plain[at] and row["run_id"] in good
    }
    of_any = grouped((of_key[at], at) for at in of_options.values())

    def reference(at: int) -> Row | None:
        several = of_any.get(of_key[at], [])
        found = of_options.get(of_option[at], several[0] if len(several) == 1 else None)
        return None if found is None else cases[found]

    found = (None if itself else reference(at) for at, itself in enumerate(plain))
    ratios = (ratio(row, other) if other else None
              for row, other in zip(cases, found, strict=True))  # fmt: skip
    return per_row(rows, ratios, "object")


def against(rows: pd.DataFrame, wanted: str) -> pd.DataFrame:
    """Compares each row with the row of mode `wanted`; returns `rows` with COLUMNS added.

    Both rows do the same work. `wanted` is the mode's name in the table, alone or with a dtype
    (`compile bf16`). If several rows have that mode, the row with the same compiler cache and the
    baseline's dtype is used. Raises UsageError if no row has the mode, if no row of the mode has a
    result that counts, or if several rows remain.
    """
    every = as_rows(rows)
    paired = list(zip(every, _references(every, wanted), strict=True))
    over = [over_fp32.in_place(row) for row in every]  # what is compared if nothing paired can be
    chained = zip(over, _references(over, wanted), strict=True)
    compared = [pair if pair[1] else other for pair, other in zip(paired, chained, strict=True)]
    others = [other for _, other in compared]
    if not any(others):
        raise UsageError(f"--against {wanted}: {_why_none(every, wanted)}")
    ratios = [ratio(row, other) if other else None for row, other in compared]

    def column(values: Iterable[Any], dtype: str = "float64") -> pd.Series:
        return per_row(rows, values, dtype)

    result = rows.assign(
        against_mode=column((other and phrases.mode(other) for other in others), "object"),
        against_dtype=column((other and other["dtype"] for other in others), "object"),
        against_speedup=column(ratios, "object"),
        against_verdict=column(map(estimates.verdict, ratios), "object"),
        against_processes=column(_processes(row, other) for row, other in compared),
        against_is_chained=column((_is_chained(*pair) for pair in compared), "object"),
    )
    first_s = column(other and other["first_call_s"] for other in others)
    replaced = _in_place(result).assign(baseline_first_call_s=first_s, baseline_latency_s=None)
    calls = break_even_calls(replaced)
    return result.assign(against_break_even_calls=calls)


def _references(rows: Sequence[Row], wanted: str) -> list[Row | None]:
    groups = grouped((values_of(row, SAME_BASELINE), row) for row in rows)
    usable = {key: _usable(members, wanted) for key, members in groups.items()}
    return [_reference(row, usable[values_of(row, SAME_BASELINE)], wanted) for row in rows]


def _is_chained(row: Row, other: Row | None) -> bool | None:
    """Whether the speedup of `row` or of `other` is a chained one; None without `other`."""
    return None if other is None else any(side.get("is_chained", False) for side in (row, other))


def in_place_of_the_baseline(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the compared rows of `against`, with the other row in place of their baseline.

    The columns that a terminal's table reads (baseline_mode, speedup, verdict, ...) take the values
    of the comparison. Rows that were not compared are left out.
    """
    shown = rows[rows["against_mode"].notna()]
    calls = shown["against_break_even_calls"]
    return _in_place(shown).assign(
        break_even_calls=calls,
        speedup_same_grad=None,
        chained_speedup=None,
        baseline_latency_s=None,
    )


def _in_place(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(
        baseline_mode=rows["against_mode"],
        baseline_dtype=rows["against_dtype"],
        speedup=rows["against_speedup"],
        verdict=rows["against_verdict"],
    )


def _usable(rows: Sequence[Row], wanted: str) -> list[Row]:
    named = (row for row in rows if wanted in _names(row))
    return [row for row in named if predicates.why_left_out(row) is None]


def _names(row: Row) -> set[str]:
    modes = {str(row["mode"]), phrases.mode(row)}
    return modes | {f"{mode} {row['dtype']}" for mode in modes}


def _reference(row: Row, usable: Sequence[Row], wanted: str) -> Row | None:
    """Returns the row of mode `wanted` with which `row` is compared; None if there is none.

    `usable` has the candidates. Those with the compiler cache of `row` are preferred, then those
    with the baseline's dtype; raises UsageError if several remain. If `wanted` names the baseline,
    the result is instead a copy of `row` with the baseline's mode, dtype and first call.
    """
    mode, dtype = row["baseline_mode"], row["baseline_dtype"]
    if mode is not None and dtype is not None and wanted in (mode, phrases.baseline(row)):
        return {
            **row,
            "run_id": "",  # that of no row
            "mode": mode,
            "dtype": dtype,
            "apart": None,
            "first_call_s": baseline_first_s(row),
        }
    left = [
        candidate for candidate in usable if candidate["compile_cache"] == row["compile_cache"]
    ] or usable
    left = [candidate for candidate in left if candidate["dtype"] == row["baseline_dtype"]] or left
    if len(left) > 1:
        names = phrases.listed([phrases.variant(candidate) for candidate in left])
        raise UsageError(
            f"--against {wanted}: {phrases.work(row)} was measured in {names}; write the mode and "
            f"its precision in quotes: --against '{phrases.variant(left[0])}'"
        )
    return left[0] if left else None


def _processes(row: Row, other: Row | None) -> int | None:
    """Returns the number of processes behind `ratio(row, other)`.

    None without `other`, for a row against itself, and if one row is the baseline, because both
    were then timed in the same rounds.
    """
    if other is None or row["run_id"] == other["run_id"]:
        return None
    if predicates.is_control(row) or predicates.is_control(other):
        return None
    return processes(row, other) or None


def _why_none(rows: Sequence[Row], wanted: str) -> str:
    named = [row for row in rows if wanted in _names(row)]
    if named:
        return f"no row in this mode may be compared with ({predicates.why_left_out(named[-1])})"
    modes = {phrases.mode(row) for row in rows if predicates.why_left_out(row) is None}
    modes |= {row["baseline_mode"] for row in rows if row["baseline_mode"] is not None}
    listed = phrases.listed(sorted(modes)) if modes else "none"
    return f"no row has this mode; there is {listed}, alone or with a precision ('compile fp32')"

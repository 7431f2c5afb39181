"""The statistics of one run, computed from its own rounds, clocks and counts.

They depend on nothing but the columns of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.rows import flags, profiler_agreement, round_ratios, step_parts
from modescope.analysis.rows.select import per_row
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate

MIN_CALLS_P95 = 100  # five calls beyond the percentile; with fewer, outliers determine it

_ROUNDS = "_rounds_s"
CLOCKS = tuple(name.removesuffix(_ROUNDS) for name in SCHEMA.names if name.endswith(_ROUNDS))
"""The clocks, each with a column of durations: a value per round or block."""

# Raw samples, which the statistics replace.
SAMPLES = (*(f"{clock}{_ROUNDS}" for clock in CLOCKS), "case_ran_first", "latency_calls_s")

Statistic = Callable[[Row], Estimate | None]


def _median_of(column: str) -> Statistic:
    return lambda run: estimates.median_interval(run[column])


def _ratio(run: Row) -> Estimate | None:
    rounds = (run["latency_rounds_s"], run["baseline_latency_rounds_s"])
    return estimates.speedup(*rounds, run["case_ran_first"])


def _p95(run: Row) -> Estimate | None:
    calls = run["latency_calls_s"]
    if calls is None or len(calls) < MIN_CALLS_P95:
        return None
    return Estimate(float(np.quantile(calls, 0.95)), None, None)


# Combined over the processes of a case. A new one is a function and a line.
STATISTICS: dict[str, Statistic] = {
    **{f"_{clock}": _median_of(f"{clock}{_ROUNDS}") for clock in CLOCKS},
    "_ratio": _ratio,
    "_p95": _p95,
    **round_ratios.STATISTICS,
    **step_parts.STATISTICS,
}
PARTS = ("value", "low", "high")
"""Columns of an encoded estimate."""

SHARES = profiler_agreement.SHARES  # computed from those above
ESTIMATES = (*STATISTICS, *SHARES)
COLUMNS = (*ESTIMATES, "_rounds", "_flags")


def summarised(rows: pa.Table) -> pa.Table:
    """Rows with encoded COLUMNS in place of SAMPLES."""
    statistics = list(map(of_run, phrases.as_rows(rows.to_pandas())))
    kept: dict[str, Any] = {name: rows[name] for name in rows.column_names if name not in SAMPLES}
    return pa.table(kept | encoded(statistics))


def of_run(run: Row) -> dict[str, Any]:
    """The COLUMNS of one run; mostly None if it did not end ok, because its times are invalid."""
    ok = run["status"] == "ok"
    clocks = {name: statistic(run) if ok else None for name, statistic in STATISTICS.items()}
    timed = {**run, **clocks}
    shares = {name: share(timed) if ok else None for name, share in SHARES.items()}
    rounds = run["latency_rounds_s"]
    return {
        **clocks,
        **shares,
        "_rounds": len(rounds) if ok and rounds is not None else None,
        "_flags": [*phrases.flags(run), *flags.raised(timed)],
    }


def encoded(runs: Sequence[Mapping[str, Any]]) -> dict[str, pa.Array]:
    """COLUMNS of runs, an estimate as three columns: `_latency.value`, `_latency.low`, ..."""
    columns = {}
    for name in ESTIMATES:
        for part in PARTS:
            values = [None if run[name] is None else getattr(run[name], part) for run in runs]
            columns[f"{name}.{part}"] = pa.array(values, pa.float64())
    columns["_rounds"] = pa.array([run["_rounds"] for run in runs], pa.int64())
    columns["_flags"] = pa.array([run["_flags"] for run in runs], pa.list_(pa.string()))
    return columns


def decoded(table: pa.Table) -> pd.DataFrame:
    """A table with encoded statistics, as COLUMNS of estimates or None."""
    plain = [name for name in table.column_names if not name.startswith("_")]
    frame: pd.DataFrame = table.select(plain).to_pandas()
    lists: dict[str, list[Any]] = {name: _estimates(table, name) for name in ESTIMATES}
    lists |= {name: table[name].to_pylist() for name in ("_rounds", "_flags")}
    return frame.assign(**{name: per_row(frame, lists[name], "object") for name in COLUMNS})


def _estimates(table: pa.Table, name: str) -> list[Estimate | None]:
    parts = (table[f"{name}.{part}"].to_pylist() for part in PARTS)
    return [
        None if value is None else Estimate(value, low, high)
        for value, low, high in zip(*parts, strict=True)
    ]

"""What each run is asked about itself: all that its own rounds, clocks and counts say.

Of thousands of runs these answers are kept (`analysis.cache`), so nothing here may depend on
another run, on the time, or on anything but the columns of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis import flags, split, training, words
from analysis.words import Row
from bench import stats
from bench.stats import Estimate

MIN_CALLS_P95 = 100  # five calls beyond the percentile; with fewer it is an outlier's report

# Raw samples, a value per round, block or call. Once a run has answered, nobody needs them.
SAMPLES = (
    "latency_rounds_s", "baseline_latency_rounds_s", "case_ran_first", "latency_calls_s",
    "host_rounds_s", "pipelined_rounds_s", "device_rounds_s", "dispatch_rounds_s",
    *(f"{part}_rounds_s" for part in training.PARTS),
)  # fmt: skip

Question = Callable[[Row], Estimate | None]


def _median_of(column: str) -> Question:
    return lambda run: stats.median_interval(run[column])


def _ratio(run: Row) -> Estimate | None:
    return stats.speedup(run["latency_rounds_s"], run["baseline_latency_rounds_s"])


def _p95(run: Row) -> Estimate | None:
    calls = run["latency_calls_s"]
    if calls is None or len(calls) < MIN_CALLS_P95:
        return None
    return Estimate(float(np.quantile(calls, 0.95)), None, None)


# The answers to these are estimates. Those of a case's processes are combined.
QUESTIONS: dict[str, Question] = {
    "_latency": _median_of("latency_rounds_s"),
    "_baseline": _median_of("baseline_latency_rounds_s"),
    "_ratio": _ratio,
    "_p95": _p95,
    "_host": _median_of("host_rounds_s"),
    "_device": _median_of("device_rounds_s"),
    "_pipelined": _median_of("pipelined_rounds_s"),
    "_dispatch": _median_of("dispatch_rounds_s"),
    **{f"_{part}": _median_of(f"{part}_rounds_s") for part in training.PARTS},
}
SHARES = split.SHARES | training.SHARES
ESTIMATES = (*QUESTIONS, *SHARES)
COLUMNS = (*ESTIMATES, "_rounds", "_flags")

_PARTS = ("value", "low", "high")  # of an estimate, as they are kept


def answered(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` with their answers in place of SAMPLES: estimates or None, `_rounds` and `_flags`."""
    told = [ask(run) for run in words.as_rows(runs)]
    columns = {
        name: pd.Series([answers[name] for answers in told], index=runs.index, dtype="object")
        for name in COLUMNS
    }
    return runs.drop(columns=list(SAMPLES)).assign(**columns)


def ask(run: Row) -> dict[str, Any]:
    """The answers of one run; few where it did not end ok, as its times mean nothing."""
    ok = run["status"] == "ok"
    answers = {name: question(run) if ok else None for name, question in QUESTIONS.items()}
    told = {**run, **answers}
    shares = {name: share(told) if ok else None for name, share in SHARES.items()}
    rounds = run["latency_rounds_s"]
    return {
        **answers,
        **shares,
        "_rounds": len(rounds) if ok and rounds is not None else None,
        "_flags": [*words.flags(run), *flags.raised(told)],
    }


def encoded(told: Sequence[Mapping[str, Any]]) -> dict[str, pa.Array]:
    """Answers as columns of a file: `_latency.value`, `_latency.low`, ..."""
    columns = {
        f"{name}.{part}": pa.array(
            [None if answers[name] is None else getattr(answers[name], part) for answers in told],
            pa.float64(),
        )
        for name in ESTIMATES
        for part in _PARTS
    }
    columns["_rounds"] = pa.array([answers["_rounds"] for answers in told], pa.int64())
    columns["_flags"] = pa.array([answers["_flags"] for answers in told], pa.list_(pa.string()))
    return columns


def decoded(table: pa.Table) -> pd.DataFrame:
    """A table with encoded answers as `answered` gives it."""
    plain = [name for name in table.column_names if not name.startswith("_")]
    frame: pd.DataFrame = table.select(plain).to_pandas()
    kept: dict[str, list[Any]] = {name: _estimates(table, name) for name in ESTIMATES}
    kept |= {name: table[name].to_pylist() for name in ("_rounds", "_flags")}
    columns = {name: pd.Series(kept[name], index=frame.index, dtype="object") for name in COLUMNS}
    return frame.assign(**columns)


def _estimates(table: pa.Table, name: str) -> list[Estimate | None]:
    parts = (table[f"{name}.{part}"].to_pylist() for part in _PARTS)
    return [
        None if value is None else Estimate(value, low, high)
        for value, low, high in zip(*parts, strict=True)
    ]

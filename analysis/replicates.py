"""One row per case out of the rows of its processes, which are combined and never pooled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from analysis import flags, rows, split, training, words
from analysis.words import Row
from bench import stats
from bench.stats import Estimate

MIN_CALLS_P95 = 100  # five calls beyond the percentile; with fewer it is an outlier's report
ENOUGH = 5  # processes; times of fewer differ by more than their own intervals say

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


# What each process is asked; the answers of a case's processes are combined.
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
SPREADS = ("_latency", "_ratio")

_COUNTS = {
    "replicates": "how many processes of the case ended ok and were combined, by their values and "
    "never by pooling rounds: a figure is the geometric mean of theirs, and its interval comes "
    "from the spread between them (three or more), is no 95 % interval but the range of two "
    "processes and their intervals (two), or that within the process (one). Latencies of fewer "
    "than five processes say little. Stored columns are those of the least trusted of them: one "
    "that was not in effect shows",
    "replicates_not_ok": "how many processes of the case did not end ok and count for nothing",
}
_IDS = {"process_run_ids": "run_id of every process of the case, whatever its status, joined by ;"}
ADDED = rows.ADDED | _COUNTS | _IDS


def combined(processes: pd.DataFrame) -> pd.DataFrame:
    """One row per CASE, out of `rows.latest`.

    Adds the counts of `ADDED`, `_flags`, an Estimate or None for each of QUESTIONS and
    SHARES, and the relative spread between processes of the SPREADS: `_latency_spread`,
    `_ratio_spread`.
    """
    asked = [_asked(run) for run in words.as_rows(processes)]
    table = processes.assign(**{
        name: pd.Series([run[name] for run in asked], index=processes.index, dtype="object")
        for name in (*_ASKED, "_flags")
    })  # fmt: skip
    table["_ok"] = table["status"] == "ok"
    case = list(rows.CASE)
    shown = table.iloc[_least_trusted_first(table)].drop_duplicates(case).sort_index()
    by_case = dict(list(table.groupby(case, sort=False)))
    answers = [_combined(by_case[key]) for key in zip(*(shown[c] for c in case), strict=True)]
    columns = {
        name: pd.Series([answer[name] for answer in answers], index=shown.index, dtype=dtype)
        for name, dtype in _COMBINED.items()
    }
    return shown.drop(columns="_ok").assign(**columns).reset_index(drop=True)


_ASKED = (*QUESTIONS, *SHARES)
_COMBINED = {
    **dict.fromkeys((*_ASKED, "_flags"), "object"),
    **{f"{name}_spread": "float64" for name in SPREADS},
    "_rounds": "float64",
    **dict.fromkeys(_COUNTS, "int64"),
    **dict.fromkeys(_IDS, "str"),
}


def _asked(run: Row) -> dict[str, Any]:
    """The answers of one process; none where it did not end ok, as its times mean nothing."""
    ok = run["status"] == "ok"
    answers = {name: question(run) if ok else None for name, question in QUESTIONS.items()}
    told = {**run, **answers}
    shares = {name: share(told) if ok else None for name, share in SHARES.items()}
    return {**answers, **shares, "_flags": [*words.flags(run), *flags.raised(told)]}


def _least_trusted_first(table: pd.DataFrame) -> list[int]:
    """Places in the order in which a case's processes are asked for its stored columns.

    Of those that ended ok the first is the one with most against it, so that a case is not shown
    as better founded than its weakest process.
    """
    order = table.assign(_trust=table["in_effect"].map({False: 0, True: 2}).fillna(1))
    order["_place"] = range(len(order))
    keys = ["_ok", "_trust", "budget_rank", "replicate"]
    ascending = [False, True, True, True]
    return order.sort_values(keys, ascending=ascending, kind="stable")["_place"].tolist()


def _combined(case: pd.DataFrame) -> dict[str, Any]:
    """The answers of one case's processes as one."""
    ok = case[case["_ok"]]
    values = {name: [known.value for known in ok[name] if known is not None] for name in SPREADS}
    counts = [len(times) for times in ok["latency_rounds_s"] if times is not None]
    return {
        **{name: stats.combine(list(ok[name])) for name in QUESTIONS},
        **{name: stats.combine(ok[name].tolist()) for name in SHARES},
        "_flags": list(dict.fromkeys(flag for raised in case["_flags"] for flag in raised)),
        **{f"{name}_spread": stats.relative_spread(values[name]) for name in SPREADS},
        "_rounds": min(counts, default=None),
        "replicates": len(ok),
        "replicates_not_ok": len(case) - len(ok),
        "process_run_ids": ";".join(case["run_id"]),
    }

"""Combines the rows of a case's processes into one, without pooling their samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pandas as pd

from modescope.analysis.load.run_stats import ESTIMATES
from modescope.analysis.rows import identity, select
from modescope.bench.stats import estimates as stats

ENOUGH = 5  # processes; intervals of fewer understate the spread of times between processes
SPREADS = ("_latency", "_ratio")

_COUNTS = {
    "replicates": "number of processes of the case that ended ok and were combined. A value is the "
    "geometric mean of theirs; rounds are never pooled. The interval is the 95 % interval of the "
    "spread between processes (three or more), the range of both processes' intervals (two; not "
    "a 95 % interval), or the interval within the process (one). Latencies of fewer than five "
    "processes are uncertain. Stored columns come from the least trusted process, for example one "
    "that was not in effect, or whose results could not be checked",
    "speedup_processes": "number of these that have a speedup; one whose baseline was wrong or "
    "not in effect has none",
    "replicates_not_ok": "number of processes of the case that did not end ok; they are ignored",
}
_IDS = {
    "process_run_ids": "run_id of every process of the case, whatever its status, joined by ;",
    "process_nodes": "nodes on which these processes ran, each once, joined by ;; the spread "
    "between processes of several nodes contains what differs between these. Null where unknown",
}
_APART = {"apart": identity.DOC}
ADDED = select.ADDED | _COUNTS | _IDS | _APART


def combined(processes: pd.DataFrame) -> pd.DataFrame:
    """One row per CASE, out of `select.latest` of runs with their statistics.

    Estimates are combined over all processes that ended ok, `_rounds` is the minimum, `_flags` the
    union. Adds the columns `ADDED` and the relative spread between processes of each of SPREADS:
    `_latency_spread`, `_ratio_spread`.
    """
    table = processes.assign(_ok=processes["status"] == "ok").reset_index(drop=True)
    case = list(select.CASE)
    shown = table.iloc[_least_trusted_first(table)].drop_duplicates(case).sort_index()
    members = table.groupby(case, sort=False, dropna=False).ngroup()
    places: dict[int, list[int]] = {}
    for place, group in enumerate(members):
        places.setdefault(group, []).append(place)
    needed = (*ESTIMATES, "_rounds", "_flags", "_ok", "run_id", "node")
    columns_of_all = {name: table[name].tolist() for name in needed}
    cases = [_combined(columns_of_all, places[members[place]]) for place in shown.index]
    columns = {
        name: select.per_row(shown, (one[name] for one in cases), dtype)
        for name, dtype in _COMBINED.items()
    }
    stored = shown.drop(columns=["_ok", *columns], errors="ignore")
    table = pd.concat([stored, pd.DataFrame(columns)], axis="columns").reset_index(drop=True)
    return table.assign(apart=identity.apart(table))


_COMBINED = {
    **dict.fromkeys((*ESTIMATES, "_flags"), "object"),
    **{f"{name}_spread": "float64" for name in SPREADS},
    "_rounds": "float64",
    **dict.fromkeys(_COUNTS, "int64"),
    **dict.fromkeys(_IDS, "str"),
}


def _least_trusted_first(table: pd.DataFrame) -> list[int]:
    """Positions in the order in which processes provide the stored columns of their case.

    Of those that ended ok the least trusted comes first, so that a case never looks more reliable
    than its weakest process.
    """
    order = table[["_ok", "budget_rank", "replicate"]].assign(
        _trust=table["in_effect"].map({False: 0, True: 2}).fillna(1),
        _checked=table["checked"] != "not",
        _place=range(len(table)),
    )
    keys = ["_ok", "_trust", "_checked", "budget_rank", "replicate"]
    ascending = [False, True, True, True, True]
    return order.sort_values(keys, ascending=ascending, kind="stable")["_place"].tolist()


def _combined(columns: dict[str, list[Any]], case: Sequence[int]) -> dict[str, Any]:
    """The combined statistics of the processes of one case; null if none is ok."""
    of_case = {name: [values[place] for place in case] for name, values in columns.items()}
    values = {name: [one.value for one in of_case[name] if one is not None] for name in SPREADS}
    counts = [count for count in of_case["_rounds"] if count is not None]
    ok = sum(of_case["_ok"])
    return {
        **{name: stats.combine(of_case[name]) for name in ESTIMATES},
        "_flags": list(dict.fromkeys(chain.from_iterable(of_case["_flags"]))),
        **{f"{name}_spread": stats.relative_spread(values[name]) for name in SPREADS},
        "_rounds": min(counts, default=None),
        "replicates": ok,
        "speedup_processes": len(values["_ratio"]),
        "replicates_not_ok": len(case) - ok,
        "process_run_ids": ";".join(of_case["run_id"]),
        "process_nodes": ";".join(dict.fromkeys(filter(pd.notna, of_case["node"]))) or None,
    }

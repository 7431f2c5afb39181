"""One row per case out of the rows of its processes, which are combined and never pooled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis import identity, rows
from analysis.answers import ESTIMATES
from bench import stats
from bench.stats import Estimate

ENOUGH = 5  # processes; times of fewer differ by more than their own intervals say
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
_APART = {"apart": identity.DOC}
ADDED = rows.ADDED | _COUNTS | _IDS | _APART


def combined(processes: pd.DataFrame) -> pd.DataFrame:
    """One row per CASE, out of `rows.latest` of runs with their answers.

    Estimates become one of all processes that ended ok, `_rounds` the fewest of them, `_flags`
    those of any. Adds the columns of `ADDED` and the relative spread between processes of the
    SPREADS: `_latency_spread`, `_ratio_spread`.
    """
    table = processes.assign(_ok=processes["status"] == "ok").reset_index(drop=True)
    case = list(rows.CASE)
    shown = table.iloc[_least_trusted_first(table)].drop_duplicates(case).sort_index()
    members = table.groupby(case, sort=False, dropna=False).ngroup()
    places: dict[int, list[int]] = {}
    for place, group in enumerate(members):
        places.setdefault(group, []).append(place)
    told = {
        name: table[name].tolist() for name in (*ESTIMATES, "_rounds", "_flags", "_ok", "run_id")
    }
    answers = [_combined(told, places[members[place]]) for place in shown.index]
    columns = {
        name: pd.Series([answer[name] for answer in answers], index=shown.index, dtype=dtype)
        for name, dtype in _COMBINED.items()
    }
    table = shown.drop(columns="_ok").assign(**columns).reset_index(drop=True)
    return table.assign(apart=identity.apart(table))


_COMBINED = {
    **dict.fromkeys((*ESTIMATES, "_flags"), "object"),
    **{f"{name}_spread": "float64" for name in SPREADS},
    "_rounds": "float64",
    **dict.fromkeys(_COUNTS, "int64"),
    **dict.fromkeys(_IDS, "str"),
}


def _least_trusted_first(table: pd.DataFrame) -> list[int]:
    """Places in the order in which a case's processes are asked for its stored columns.

    Of those that ended ok the first is the one with most against it, so that a case is not shown
    as better founded than its weakest process.
    """
    order = table[["_ok", "budget_rank", "replicate"]].assign(
        _trust=table["in_effect"].map({False: 0, True: 2}).fillna(1), _place=range(len(table))
    )
    keys = ["_ok", "_trust", "budget_rank", "replicate"]
    ascending = [False, True, True, True]
    return order.sort_values(keys, ascending=ascending, kind="stable")["_place"].tolist()


def _combined(told: dict[str, list[Any]], case: Sequence[int]) -> dict[str, Any]:
    """The answers of the processes at the places of one case, as one.

    A process that did not end ok gave none.
    """
    found: dict[str, list[Estimate | None]] = {
        name: [told[name][place] for place in case] for name in ESTIMATES
    }
    values = {name: [one.value for one in found[name] if one is not None] for name in SPREADS}
    counts = [n for place in case if (n := told["_rounds"][place]) is not None]
    ok = sum(told["_ok"][place] for place in case)
    flags = (flag for place in case for flag in told["_flags"][place])
    return {
        **{name: stats.combine(estimates) for name, estimates in found.items()},
        "_flags": list(dict.fromkeys(flags)),
        **{f"{name}_spread": stats.relative_spread(values[name]) for name in SPREADS},
        "_rounds": min(counts, default=None),
        "replicates": ok,
        "replicates_not_ok": len(case) - ok,
        "process_run_ids": ";".join(told["run_id"][place] for place in case),
    }

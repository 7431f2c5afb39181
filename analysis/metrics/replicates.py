"""Combines the rows of a case's processes into one, without pooling their samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from modescope.analysis.format.phrases import grouped
from modescope.analysis.rows import identity, select
from modescope.bench.records.summary_columns import ESTIMATES as STORED
from modescope.bench.stats import estimates as stats

ENOUGH = 5  # processes; intervals of fewer understate the spread of times between processes
ESTIMATES = tuple(f"_{name}" for name in STORED)
SPREADS = ("_latency", "_speedup")

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
    """One row per CASE, out of `select.latest` of rows with their statistics.

    Estimates are combined over all processes that ended ok, `_rounds` is the minimum, `_flags` the
    union. Adds the columns `ADDED` and the relative spread between processes of each of SPREADS:
    `_latency_spread`, `_speedup_spread`.
    """
    table = processes.reset_index(drop=True).assign(_ok=processes["status"].to_numpy() == "ok")
    case = list(select.CASE)
    first = table.iloc[_least_trusted_first(table)].drop_duplicates(case).index.sort_values()
    groups = table.groupby(case, sort=False, dropna=False).ngroup()
    places = grouped((group, place) for place, group in enumerate(groups.tolist()))
    shown = table.iloc[first].reset_index(drop=True)
    columns = {
        name: select.per_row(shown, values, _COMBINED[name])
        for name, values in _combined(table, [places[groups[at]] for at in first]).items()
    }
    stored = shown.drop(columns=["_ok", *columns], errors="ignore")
    table = pd.concat([stored, pd.DataFrame(columns)], axis="columns")
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


def _combined(table: pd.DataFrame, cases: Sequence[Sequence[int]]) -> dict[str, list[Any]]:
    """The columns of _COMBINED for cases, given as the positions of their processes."""
    names = (*ESTIMATES, "_flags", "_rounds", "_ok", "run_id", "node")
    each = {name: table[name].tolist() for name in names}

    def of(name: str) -> Iterator[list[Any]]:
        """The known values of each case."""
        for case in cases:
            values = (each[name][place] for place in case)
            yield [value for value in values if value is not None and value == value]

    spreads = {name: [[one.value for one in known] for known in of(name)] for name in SPREADS}
    good = [sum(oks) for oks in of("_ok")]
    return {
        **{name: list(map(stats.combine, of(name))) for name in ESTIMATES},
        "_flags": [list(dict.fromkeys(chain.from_iterable(flags))) for flags in of("_flags")],
        **{f"{name}_spread": list(map(stats.relative_spread, spreads[name])) for name in SPREADS},
        "_rounds": [min(counts, default=None) for counts in of("_rounds")],
        "replicates": good,
        "speedup_processes": list(map(len, spreads["_speedup"])),
        "replicates_not_ok": [len(case) - ok for case, ok in zip(cases, good, strict=True)],
        "process_run_ids": list(map(";".join, of("run_id"))),
        "process_nodes": [";".join(dict.fromkeys(nodes)) or None for nodes in of("node")],
    }

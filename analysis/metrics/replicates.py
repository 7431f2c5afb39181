"""Combines the rows of a case's processes into one, without pooling their samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from modescope.analysis.load import combining
from modescope.analysis.load.combining import Cases, values_of
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
    newest = processes[[*select.ADDED]].reset_index(drop=True)
    return of_newest(processes, newest, lambda places: processes.iloc[places])


def of_newest(
    runs: pd.DataFrame, newest: pd.DataFrame, rows: Callable[[list[int]], pd.DataFrame]
) -> pd.DataFrame:
    """`combined` of all runs of a study and `select.newest` of them.

    `runs` need only have columns for which `is_read` is true; `rows` gives all columns of the runs
    at some positions. Of a hundred thousand runs that saves seconds.
    """
    places = newest.index.to_numpy()
    needed = [name for name in runs if is_read(str(name))]
    table = runs[needed].iloc[places].reset_index(drop=True)
    table = table.assign(**{name: newest[name].to_numpy() for name in select.ADDED})
    table = table.assign(_ok=table["status"] == "ok")
    case = list(select.CASE)
    first = table.iloc[_least_trusted_first(table)].drop_duplicates(case).index.sort_values()
    members = table.groupby(case, sort=False, dropna=False).ngroup()
    of_group: dict[int, list[int]] = {}
    for place, group in enumerate(members.tolist()):
        of_group.setdefault(group, []).append(place)
    cases = [of_group[group] for group in members.to_numpy()[first].tolist()]
    shown = rows(places[first].tolist()).reset_index(drop=True)
    shown = shown.assign(**{name: table[name].iloc[first].to_numpy() for name in select.ADDED})
    columns = {
        name: select.per_row(shown, values, _COMBINED[name])
        for name, values in _combined(table, cases).items()
    }
    encoded = [name for name in shown if str(name).startswith("_") and "." in str(name)]
    stored = shown.drop(columns=[*encoded, *columns], errors="ignore")
    table = pd.concat([stored, pd.DataFrame(columns)], axis="columns").reset_index(drop=True)
    return table.assign(apart=identity.apart(table))


def is_read(name: str) -> bool:
    """Whether a column is read of each process, and not only of those that are shown."""
    return name.partition(".")[0] in {*ESTIMATES, "_rounds", "_flags"} or name in _READ


_READ = (
    *select.CASE, "status", "run_id", "budget_rank", "replicate", "in_effect", "checked", "node",
)  # fmt: skip

_COMBINED = {
    **dict.fromkeys((*ESTIMATES, "_flags"), "object"),
    **{f"{name}_spread": "float64" for name in SPREADS},
    "_rounds": "float64",
    **dict.fromkeys(_COUNTS, "int64"),
    **dict.fromkeys(_IDS, "str"),
}


def _nodes(of_processes: Iterable[str | None]) -> str | None:
    """Nodes joined by ;, each once; None where none is known."""
    return ";".join(dict.fromkeys(node for node in of_processes if pd.notna(node))) or None


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
    flags, ids, nodes = (table[name].tolist() for name in ("_flags", "run_id", "node"))
    ok = table["_ok"].tolist()
    rounds = [None if pd.isna(count) else count for count in table["_rounds"].tolist()]
    values = {name: values_of(table, name) for name in SPREADS}
    known = {
        name: [[one for place in case if (one := of[place]) is not None] for case in cases]
        for name, of in values.items()
    }
    counts = ([of for place in case if (of := rounds[place]) is not None] for case in cases)
    good = [sum(ok[place] for place in case) for case in cases]
    return {
        **{name: combining.combined(table, name, Cases(cases)) for name in ESTIMATES},
        "_flags": [
            list(dict.fromkeys(chain.from_iterable(flags[place] for place in case)))
            for case in cases
        ],
        **{f"{name}_spread": list(map(stats.relative_spread, known[name])) for name in SPREADS},
        "_rounds": [min(each, default=None) for each in counts],
        "replicates": good,
        "speedup_processes": list(map(len, known["_ratio"])),
        "replicates_not_ok": [len(case) - of for case, of in zip(cases, good, strict=True)],
        "process_run_ids": [";".join(ids[place] for place in case) for case in cases],
        "process_nodes": [_nodes(nodes[place] for place in case) for case in cases],
    }

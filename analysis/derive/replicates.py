"""Combines the rows of a case's processes into one, without pooling their samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from modescope.analysis.derive import select
from modescope.analysis.derive.select import values_of
from modescope.analysis.format.phrases import Row, as_rows, grouped
from modescope.bench.records.parquet import ESTIMATES as STORED
from modescope.bench.stats import estimates as stats

ESTIMATES = tuple(f"_{name}" for name in STORED)
SPREADS = ("_latency", "_speedup")

_COUNTS = {
    "replicates": "processes of the case that ended ok and are combined: values are geometric "
    "means; the interval is that of the spread between three processes or more, the range of both "
    "intervals of two, or that within one. Stored columns come from the least trusted process",
    "speedup_processes": "how many of these have a speedup",
    "replicates_not_ok": "processes of the case that did not end ok; they are ignored",
}
_IDS = {
    "process_run_ids": "run_id of every process of the case, whatever its status, joined by ;",
    "process_nodes": "nodes on which these ran, each once, joined by ;",
}
ADDED = select.ADDED | _COUNTS | _IDS | {"apart": select.APART}


def combine(processes: pd.DataFrame) -> pd.DataFrame:
    """One row per CASE; `processes` are the rows of `select.latest` with their estimates.

    Estimates are combined over all processes that ended ok, `_rounds` is the minimum, `_flags` the
    union. Adds the columns `ADDED` and the relative spread between processes of each of SPREADS:
    `_latency_spread`, `_speedup_spread`.
    """
    read = [*select.CASE, "status", "in_effect", "checked", "budget_rank", "replicate"]
    rows = as_rows(processes[read])
    cases = grouped((values_of(row, select.CASE), at) for at, row in enumerate(rows)).values()
    by_first = {min(places, key=lambda at: _rank(rows[at])): places for places in cases}
    first = sorted(by_first)
    columns = _combined_columns(processes, [by_first[at] for at in first])
    shown = processes.iloc[first].reset_index(drop=True)
    table = pd.concat([shown.drop(columns=columns, errors="ignore"), columns], axis="columns")
    return table.assign(apart=select.distinguishing_options(table))


def _rank(row: Row) -> tuple[Any, ...]:
    """A sorting key: the process of a case that comes first provides the stored columns.

    Processes that ended ok come first, and among them the least trusted one, so that a case never
    looks more reliable than its weakest process.
    """
    trust = {False: 0, None: 1, True: 2}[row["in_effect"]]
    checked = row["checked"] != "not"
    return row["status"] != "ok", trust, checked, row["budget_rank"], row["replicate"]


def _combined_columns(table: pd.DataFrame, cases: Sequence[Sequence[int]]) -> pd.DataFrame:
    """The combined columns, with a row per case; a case lists the positions of its processes."""
    each = {name: table[name].tolist() for name in (*ESTIMATES, "_flags", "_rounds", "run_id")}
    each["node"] = table["node"].tolist()
    each["_ok"] = (table["status"] == "ok").tolist()

    def of(name: str) -> Iterator[list[Any]]:
        """For each case, the known values of column `name`."""
        for case in cases:
            values = (each[name][place] for place in case)
            yield [value for value in values if value is not None and value == value]

    spreads = {name: [[one.value for one in known] for known in of(name)] for name in SPREADS}
    good = [sum(oks) for oks in of("_ok")]
    objects = {
        **{name: list(map(stats.combine, of(name))) for name in ESTIMATES},
        "_flags": [list(dict.fromkeys(chain.from_iterable(flags))) for flags in of("_flags")],
    }
    values = {
        **{f"{name}_spread": list(map(stats.relative_spread, spreads[name])) for name in SPREADS},
        "_rounds": [min(counts, default=None) for counts in of("_rounds")],
        "replicates": good,
        "speedup_processes": list(map(len, spreads["_speedup"])),
        "replicates_not_ok": [len(case) - ok for case, ok in zip(cases, good, strict=True)],
        "process_run_ids": list(map(";".join, of("run_id"))),
        "process_nodes": [";".join(dict.fromkeys(nodes)) or None for nodes in of("node")],
    }
    whole, texts = dict.fromkeys(_COUNTS, "int64"), dict.fromkeys(_IDS, "str")
    floats = dict.fromkeys(("_rounds", *(f"{name}_spread" for name in SPREADS)), "float64")
    frames = (
        pd.DataFrame(objects, dtype="object"),
        pd.DataFrame(values).astype(whole | texts | floats),
    )
    return pd.concat(frames, axis="columns")

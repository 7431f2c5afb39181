"""Combines the replicate processes of each case into one row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from modescope.analysis.derive.select import (
    CASE,
    COUNTS,
    IDS,
    SPREADS,
    codes,
    distinguishing_options,
    per_row,
)
from modescope.analysis.estimates import point
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped
from modescope.bench.records.outcomes import Checked, Status
from modescope.bench.records.summary_columns import ESTIMATES, SIGNED, VALUES
from modescope.bench.stats import estimates as stats

_ESTIMATES = (*(columns[0] for columns in ESTIMATES.values()), "confirming_speedup")
_RANKED = ("status", "in_effect", "checked", "budget_rank", "replicate")  # by `_rank`


def combine(processes: pd.DataFrame) -> pd.DataFrame:
    """Combines the processes of each CASE into one row; adds columns of ADDED.

    `processes` is a result of `select.latest`, with all of its estimates or some. Estimates are
    combined over all processes that ended ok, `rounds` is their minimum, and `flags` their union.
    """
    cases = grouped((code, at) for at, code in enumerate(codes(processes, CASE).tolist())).values()
    several = [at for places in cases if len(places) > 1 for at in places]
    ranked = as_rows(processes[[*_RANKED]].iloc[several])
    ranks = {at: _rank(row) for at, row in zip(several, ranked, strict=True)}
    by_first = {min(places, key=lambda at: ranks.get(at, ())): places for places in cases}
    first = sorted(by_first)
    columns = _combined_columns(processes, [by_first[at] for at in first])
    shown = processes.iloc[first].reset_index(drop=True)
    kept = shown.drop(columns=columns, errors="ignore")
    table = pd.concat([kept, columns], axis="columns")
    return table.assign(apart=distinguishing_options(table))


def _rank(row: Row) -> tuple[Any, ...]:
    """Returns a sorting key for the processes of a case; the first provides the stored columns.

    Processes that ended ok come first, and among them the least trusted one, so that a case never
    looks more reliable than its weakest process.
    """
    trust = {False: 0, None: 1, True: 2}[row["in_effect"]]
    checked = row["checked"] != Checked.NOT
    return row["status"] != Status.OK, trust, checked, row["budget_rank"], row["replicate"]


def _combined_columns(table: pd.DataFrame, cases: Sequence[Sequence[int]]) -> pd.DataFrame:
    """Returns a row per case, with the columns that combine its processes: estimates, flags, ...

    `cases` has for each case the positions of its processes in `table`. Those of a single process
    are taken over.
    """
    alone, several = (
        [at for at, case in enumerate(cases) if (len(case) > 1) == is_many]
        for is_many in (False, True)
    )
    own = _own(table, [cases[at][0] for at in alone]).set_axis(alone).copy()  # defragmented
    if not several:
        return own
    combined = _of_several(table, [cases[at] for at in several]).set_axis(several)
    return pd.concat([own, combined]).sort_index() if alone else combined


def _own(table: pd.DataFrame, places: list[int]) -> pd.DataFrame:
    """Returns the columns of `_of_several` for cases of one process each."""
    estimates, points = _to_combine(table)
    read = [*estimates, "flags", *points, "status", "rounds", "run_id", "node"]
    processes = table[read].iloc[places]
    good = processes["status"] == Status.OK
    counts = {
        "replicates": good,
        "speedup_processes": processes["speedup"].notna(),
        "replicates_not_ok": ~good,
    }
    flags = (list(dict.fromkeys(raised or ())) for raised in processes["flags"])
    own: pd.DataFrame = processes.drop(columns=["status", "run_id", "node"]).assign(
        flags=per_row(processes, flags, "object"),
        **dict.fromkeys(SPREADS, math.nan),
        rounds=processes["rounds"].astype("float64"),
        **{name: count.astype("int64") for name, count in counts.items()},
        process_run_ids=processes["run_id"].astype("str"),
        process_nodes=processes["node"].astype("str").replace("", None),
    )
    return own


def _to_combine(table: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Returns the columns of Estimates, and of numbers without an interval, that `table` has."""
    estimates, points = _ESTIMATES, VALUES.values()
    return [n for n in estimates if n in table], [n for n in points if n in table]


def _of_several(table: pd.DataFrame, cases: Sequence[Sequence[int]]) -> pd.DataFrame:
    estimates, points = _to_combine(table)
    read = (*estimates, *points, "flags", "rounds", "run_id", "node")
    columns = {name: table[name].tolist() for name in read}
    columns["_ok"] = (table["status"] == Status.OK).tolist()

    def known_of(name: str) -> Iterator[list[Any]]:
        for case in cases:
            held = (columns[name][place] for place in case)
            yield [value for value in held if value is not None and value == value]

    latencies, speedups = (
        [[estimate.value for estimate in known] for known in known_of(name)]
        for name in ("latency_s", "speedup")
    )
    good = [sum(oks) for oks in known_of("_ok")]
    objects = {
        **{
            name: [stats.combine(known, name in SIGNED) for known in known_of(name)]
            for name in estimates
        },
        "flags": [list(dict.fromkeys(chain.from_iterable(flags))) for flags in known_of("flags")],
    }
    numbers = {
        **{name: [_typical(known, name in SIGNED) for known in known_of(name)] for name in points},
        "speedup_process_spread": list(map(stats.relative_spread, speedups)),
        "latency_process_spread": list(map(stats.relative_spread, latencies)),
        "rounds": [min(counts, default=None) for counts in known_of("rounds")],
        "replicates": good,
        "speedup_processes": list(map(len, speedups)),
        "replicates_not_ok": [len(case) - ok for case, ok in zip(cases, good, strict=True)],
        "process_run_ids": list(map(";".join, known_of("run_id"))),
        "process_nodes": [";".join(dict.fromkeys(nodes)) or None for nodes in known_of("node")],
    }
    whole, texts = dict.fromkeys(COUNTS, "int64"), dict.fromkeys(IDS, "str")
    floats = dict.fromkeys((*points, "rounds", *SPREADS), "float64")
    frames = (
        pd.DataFrame(objects, dtype="object"),
        pd.DataFrame(numbers).astype(whole | texts | floats),
    )
    return pd.concat(frames, axis="columns")


def _typical(known: Sequence[float], signed: bool) -> float | None:
    return point(stats.combine([stats.Estimate(value, None, None) for value in known], signed))

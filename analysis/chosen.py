"""The rows of a study that a condition chooses, with every column, and their causes.

Every row is measured against the others, because each may be another's baseline, replicate, or best
pace. But this takes only half of the stored columns (MEASURED). The rest are read, and causes are
found, for the rows that are chosen, with those that their causes compare them with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modescope.analysis import where
from modescope.analysis.causes import finding
from modescope.analysis.causes.types import Finding
from modescope.analysis.derive.against import against
from modescope.analysis.derive.combine import combine
from modescope.analysis.derive.select import FAMILY, NAME, OPTIONS, latest
from modescope.analysis.folders import Folder
from modescope.analysis.load import COLUMNS, Runs, read
from modescope.analysis.metrics import EXPLANATIONS, explain, measure, public
from modescope.bench.records import summary_columns
from modescope.bench.records.parquet import CORE

_NUMBERS = (
    *(*summary_columns.OF_CALLS, *summary_columns.OF_CLOCKS, *summary_columns.OF_PACE),
    *(*summary_columns.OF_STEPS, *summary_columns.OF_PROFILES),
)

MEASURED = frozenset(
    {
        *(*CORE, *FAMILY, *NAME, *OPTIONS, *(number.column for number in _NUMBERS)),
        *("budget_rank", "node", "gpu_uuid", "model_source_id", "code_hash", "baseline_note"),
        *("baseline_first_call_s", "package_export_s", "package_build_s", "fill_s"),
        *("bytes_accessed", "eager_bytes", "least_bytes", "profiled_span_s", "synchronize_s"),
        *("ceiling_bytes_per_s", "ceiling_flops_per_s"),
    }
)
"""The stored columns that `metrics.measure` and `nodes.sentences` read."""

_EXPLAINED = frozenset(name for metric in EXPLANATIONS for name in metric.columns)


@dataclass(frozen=True)
class Chosen:
    """Rows of a study, and what they were chosen from."""

    rows: pd.DataFrame  # with the columns of `metrics.derive`, and those of `against`
    causes: dict[str, tuple[Finding, ...]]  # run_id of each row -> what explains it
    total: int  # rows of the study
    processes: pd.DataFrame  # `select.latest`, at least with MEASURED


def chosen(study: Folder, condition: str | None, mode: str | None = None) -> Chosen:
    """Reads a study; returns the rows for which `condition` holds (`where.select`); None: all.

    They are compared with `mode` (`derive.against`) unless it is None. Raises UsageError as these
    functions and `load.read` do.
    """
    runs, named = read(study), where.words(condition or "")
    whole = condition is None or "columns" in named or not _EXPLAINED.isdisjoint(named)
    wanted = COLUMNS if whole or mode is not None else MEASURED | named
    processes = latest(runs.decoded(wanted))
    every = measure(processes)
    if mode is not None:
        every = against(every.copy(), mode)  # defragmented
    rows = every = explain(every) if whole else every
    if condition is not None:
        shown = where.select(public(every), condition).index
        told = every.index.isin(shown)
        rows = every[told] if whole else _explained(runs, processes, every, told)
    causes = dict(zip(rows["run_id"], rows["_causes"], strict=True))
    return Chosen(public(rows).copy(), causes, len(every), processes)


def _explained(
    runs: Runs, processes: pd.DataFrame, every: pd.DataFrame, told: NDArray[np.bool_]
) -> pd.DataFrame:
    """Returns those rows of `every` that are `told`, with all stored columns and EXPLANATIONS."""
    context = every.assign(_told=told)[finding.compared_with(every, told)]
    run_ids = {name for names in context["process_run_ids"] for name in names.split(";")}
    known = processes[processes["run_id"].isin(run_ids)]
    again = runs.decoded(run_ids=run_ids).assign(
        **{name: known[name].to_numpy() for name in ("environment", "measured_times")}
    )
    stored = combine(again).set_axis(context.index)
    rest = stored.drop(columns=context.columns, errors="ignore")
    table = pd.concat([context, rest], axis="columns")
    explained = explain(table[[*dict.fromkeys([*stored, *context])]])
    return explained[explained["_told"]]

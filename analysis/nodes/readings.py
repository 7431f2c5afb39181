"""Eager times of processes on several nodes: what nodes are compared by."""

from __future__ import annotations

import numpy as np
import pandas as pd

from modescope.analysis.derive import select
from modescope.bench.records.cases import PLAIN_EAGER
from modescope.bench.stats.estimates import Estimate

BASELINE = "eager"
"""The baseline whose time is read; others contain a compiler or a precision of their own."""

_WRONG = {"baseline_wrong", "baseline_not_in_effect"}  # flags

_WORK = select.SECTION  # with the environment's letter, whose number stands for the model's source
_HOW = ("kind", "timed_mode", "timed_dtype")

READ = {
    *("status", "budget_rank", "environment_id", "node", "gpu_uuid", *_WORK, *PLAIN_EAGER),
    *("run_id", "worker", "mode", "dtype", "baseline_mode", "baseline_dtype"),
}
"""Stored columns that `readings` reads, beside statistics."""


def readings(processes: pd.DataFrame, sentinels: pd.DataFrame) -> pd.DataFrame:
    """One line per process that measured plain eager.

    Its columns are environment, node, gpu_uuid, worker, work, reading and log.

    `processes` come from `select.latest`, `sentinels` from `load.sentinels`; both have statistics.
    A process counts once: by its baseline, else by itself where it is plain eager. Smoke runs are
    left out, and so are sentinels of an environment that no process has. `environment` is the
    letter without the number of a model's source, `work` a number per work, and `reading` one for
    each way in which a work was read: alone, as a baseline, or by a sentinel. `worker` is the name
    of the process's worker, or the process's own where it had none.
    """
    letters = processes.dropna(subset="environment_id").drop_duplicates("environment_id")
    letter_of = letters.set_index("environment_id")["environment"]
    known = sentinels.assign(environment=sentinels["environment_id"].map(letter_of))
    known = known[known["environment"].notna()]
    parts = [_eager(processes, "run"), *([_eager(known, "sentinel")] if len(known) else [])]
    table = pd.concat(parts, ignore_index=True)
    numbered = {
        "reading": table.groupby([*_WORK, *_HOW], dropna=False, sort=False).ngroup(),
        "work": table.groupby([*_WORK], dropna=False, sort=False).ngroup(),
    }
    table = table.assign(environment=table["environment"].map(stem_of), **numbered)
    return table[["environment", "node", "gpu_uuid", "worker", "work", "reading", "log"]]


def stem_of(letter: str) -> str:
    """`A` of `A.2`: the environment whatever the model's source."""
    return letter.partition(".")[0]


def _eager(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The runs on a named node that timed plain eager, with its time, and how it was timed."""
    wrong = runs["_flags"].map(lambda flags: not _WRONG.isdisjoint(flags)).astype("bool")
    as_baseline = runs["baseline_mode"].eq(BASELINE) & ~wrong
    alone = (runs[list(PLAIN_EAGER)] == pd.Series(PLAIN_EAGER)).all(axis="columns")
    times = runs["_baseline_latency"].where(as_baseline, runs["_latency"])
    seconds = np.array([_seconds(time) for time in times], dtype="float64")
    counts = runs["status"].eq("ok") & (runs["budget_rank"] > 0) & runs["node"].notna()
    counts &= (as_baseline | alone) & (seconds > 0)
    table: pd.DataFrame = runs[["node", "gpu_uuid", *_WORK]].assign(
        kind=np.where(as_baseline, f"{kind} baseline", kind),
        timed_mode=runs["baseline_mode"].where(as_baseline, runs["mode"]),
        timed_dtype=runs["baseline_dtype"].where(as_baseline, runs["dtype"]),
        worker=runs["worker"].fillna(runs["run_id"]),
        log=np.log(np.where(seconds > 0, seconds, 1.0)),
    )
    return table.loc[counts]


def _seconds(time: object) -> float:
    """The value of an estimate; NaN where there is none."""
    return time.value if isinstance(time, Estimate) else float("nan")

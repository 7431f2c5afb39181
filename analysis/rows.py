"""Which rows count, and which belong together."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from string import ascii_uppercase
from typing import Any

import pandas as pd

from analysis.words import Row, that_counts

# One case, in one place, from a cold or a warm cache: what replicate processes are combined in.
CASE = ("case_id", "environment", "device", "compile_cache")
# What a call does besides its model: a training step by its optimizer and options.
STEP = ("phase", "optimizer", "training")
# The same work on the same machine, at any size ...
FAMILY = ("environment", "device", "threads", "model", "model_args", *STEP)
# ... at one size: what a reader compares modes within.
SECTION = ("environment", "device", "threads", "model", "model_args", "shape", *STEP)
# ... at one output precision against one baseline: what speedups may be ranked within.
GROUP = (*SECTION, "dtype", "baseline_mode", "baseline_dtype")

ADDED = {
    "environment": "letter of the environment within the study, A being the oldest; a run that "
    "ended before its environment was read has that of the run before it on the same device. A.2 "
    "is A after the model's source was changed",
    "measured_times": "how many runs of this case, environment, device, compile_cache and "
    "replicate there are, of which the newest counts, whatever its status; smoke runs count only "
    "where there is no other",
}


def latest(runs: pd.DataFrame, among: Collection[str] | None = None) -> pd.DataFrame:
    """One row per process (CASE and replicate), out of all runs of a study.

    The newest run counts even where it failed and an older one did not; a smoke run never stands
    before one of a real budget. `among`: only runs with these ids are looked at. Adds the columns
    `ADDED`.
    """
    runs = runs.sort_values(["started_at", "run_id"], ignore_index=True)
    runs = runs.assign(environment=_environment_letter(runs))
    runs = runs if among is None else runs[runs["run_id"].isin(among)]
    process = [*CASE, "replicate"]
    runs = runs.assign(_real=runs["budget_rank"] != 0)
    has_real = runs.groupby(process, dropna=False)["_real"].transform("any")
    runs = runs[runs["_real"] | ~has_real].drop(columns="_real")
    times = runs.groupby(process, dropna=False)["run_id"].transform("size").astype("int64")
    runs = runs.assign(measured_times=times)
    return runs.drop_duplicates(process, keep="last").reset_index(drop=True)


def _environment_letter(runs: pd.DataFrame) -> pd.Series:
    """Environments in order of appearance as A, B, ...; E27 and on after the alphabet.

    A number follows where the source of a row's model is not the first one of that environment.
    """
    codes, _ = pd.factorize(_filled(runs["environment_id"], [runs["device"]]))
    letters = pd.Series([_letter(int(code)) for code in codes], index=runs.index, dtype="str")
    work = [letters, *(runs[name] for name in ("model", *STEP))]  # a loss has a source, too
    sources = _filled(runs["model_source_id"], work).groupby(work, dropna=False)
    version = sources.transform(lambda ids: pd.factorize(ids)[0]).astype("int64") + 1
    return letters.where(version < 2, letters + "." + version.astype("str"))


def _filled(ids: pd.Series, by: list[pd.Series]) -> pd.Series:
    """What is null has the id of the run before it, or after it, among those alike in `by`."""
    return ids.groupby(by, dropna=False).transform(lambda among: among.ffill().bfill())


def _letter(code: int) -> str:
    """`?` where an environment was never read."""
    return "?" if code < 0 else ascii_uppercase[code] if code < 26 else f"E{code + 1}"


def parts(rows: pd.DataFrame, by: tuple[str, ...]) -> Iterator[pd.DataFrame]:
    """`rows` split by the columns `by` (FAMILY, SECTION or GROUP), in the order of their values."""
    found = rows.groupby(list(by), dropna=False, sort=False)
    for _, part in sorted(found, key=lambda item: _natural(by, item[0])):
        yield part


def row_parts(rows: Sequence[Row], by: tuple[str, ...]) -> list[list[Row]]:
    """The same of rows; of many parts it is the quicker way."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in by), []).append(row)
    return [found[values] for values in sorted(found, key=lambda values: _natural(by, values))]


def _natural(by: tuple[str, ...], values: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
    """A sorting key: shapes by their numbers, batch 8 before batch 64, and what is null last.

    Training with fewer options comes first, so that without any leads.
    """
    named = zip(by, values, strict=True)
    return tuple((bool(pd.isna(v)), "" if pd.isna(v) else _order(name, v)) for name, v in named)


def _order(name: str, value: Any) -> Any:
    if name == "training":
        return len(json.loads(value)), value
    return tuple(json.loads(value).items()) if name == "shape" else value


def trusted(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that may be charted and recommended.

    They ended ok, are known to have been in effect, had more than a smoke budget and have an
    interval.
    """
    return rows[
        (rows["status"] == "ok")
        & (rows["in_effect"].eq(True))
        & (rows["budget_rank"] > 0)
        & rows["speedup_ci_low"].notna()
    ]


def ordered(rows: pd.DataFrame) -> pd.DataFrame:
    """For reading: by section, fastest first, what has no speedup last, or none that counts.

    A smoke run's does not, which is too short for one.
    """
    keys = [*SECTION, "_speedup", "dtype", "mode"]
    shown = rows.assign(_speedup=that_counts(rows, "speedup"))
    rising = [key != "_speedup" for key in keys]
    return shown.sort_values(keys, ascending=rising, ignore_index=True).drop(columns="_speedup")

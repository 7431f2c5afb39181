"""Selects the newest runs, and groups, sorts and names rows.

A row's name is its work, machine, mode, precision and baseline. Two cases may have the same name
and differ in another option: the column `apart` then names that option.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from string import ascii_uppercase
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modescope.analysis.estimates import lows, values
from modescope.analysis.rows.predicates import is_smoke, on_cuda
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped, value_of
from modescope.bench.records.cases import PLAIN_EAGER
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Work

# One case on one machine, with a cold or a warm cache: replicate processes are combined by it.
CASE = ("case_id", "environment", "device", "compile_cache")
# The step around the model: for training with its optimizer and options.
STEP = ("phase", "optimizer", "training", "calls", "data")
_MODEL = ("environment", "device", "threads", "model", "model_args", "model_inputs")
# The same work on the same machine, at any size ...
FAMILY = (*_MODEL, *STEP)
# ... at one size: modes are compared within it.
SECTION = (*_MODEL, "shape", *STEP)
# ... with warm or cold data.
ANY_DATA = tuple(name for name in SECTION if name != "data")
# One SECTION at one output precision against one baseline: speedups may be ranked within it.
GROUP = (*SECTION, "dtype", "quantize", "baseline_mode", "baseline_dtype")
# The same work on the same machine, each row paired with the same baseline.
SAME_BASELINE = (*SECTION, "baseline_mode", "baseline_dtype")
# One variant of a SECTION with any number of threads: what threads gain is measured within it.
THREADED = (
    *(name for name in SECTION if name != "threads"),
    *("mode", "dtype", "apart", "compile_cache", "baseline_mode", "baseline_dtype"),
)

_SIZES = ("shape", "batch", "seq")
# always shown
NAME = ("mode", "calls_pad", "dtype", "baseline_mode", "baseline_dtype", "compile_cache")
OPTIONS = tuple(field.name for field in fields(Work) if field.name not in {*FAMILY, *_SIZES, *NAME})
"""The columns that describe a case but are not part of its name."""

_OF_PROCESS = {
    "environment": "letter of the environment within the study, A being the oldest; A.2 is A after "
    "a change of the model's source",
    "measured_times": "runs of this process of the case; the newest counts, whatever its status, "
    "and smoke runs only if there is no other",
}
COUNTS = {
    "replicates": "processes of the case that ended ok and are combined: values are geometric "
    "means; the interval is that of the spread between three processes or more, the range of both "
    "intervals of two, or that within one. Stored columns come from the least trusted process",
    "speedup_processes": "how many of these have a speedup",
    "replicates_not_ok": "processes of the case that did not end ok; they are ignored",
}
SPREADS = {
    "speedup_process_spread": "relative standard deviation of speedup between replicates; null "
    "below two",
    "latency_process_spread": "the same for latency_s",
}
IDS = {
    "process_run_ids": "run_id of every process of the case, whatever its status, joined by ;",
    "process_nodes": "nodes on which these ran, each once, joined by ;",
}
"""What `combine.combine` adds: counts, spreads and ids of processes."""
_APART = {
    "apart": "options that tell the row from another one of the same work, machine, mode, dtype, "
    "baseline and cache, such as fullgraph=false; null if there is none"
}
ADDED = _OF_PROCESS | COUNTS | SPREADS | IDS | _APART
"""The columns that `latest` and `combine.combine` add."""

HOLDS = {
    **dict.fromkeys(("measured_times", *COUNTS), "int"),
    **dict.fromkeys(SPREADS, "float | None"),
    **dict.fromkeys(("environment", "process_run_ids"), "str"),
    **dict.fromkeys(("process_nodes", "apart"), "str | None"),
}
"""The types of their values in a row."""


def latest(runs: pd.DataFrame, among: Collection[str] | None = None) -> pd.DataFrame:
    """Returns the newest run of each process, with its environment's letter and number of runs.

    `runs` are in order of their start, as in `load.Runs`. A process has equal values in CASE and
    `replicate`. With `among`, only the runs with these ids count. The newest run is used even if it
    failed and an older one did not. But a smoke run never replaces a run with a real budget, and a
    skipped run never replaces one that ran.
    """
    runs = runs.assign(environment=environment_letters(runs))
    runs = runs if among is None else runs[runs["run_id"].isin(among)]
    process = codes(runs, (*CASE, "replicate")).tolist()
    rows = as_rows(runs[["status", "budget_rank"]])
    times: dict[int, int] = {}  # by the place of the newest run
    for places in grouped((code, at) for at, code in enumerate(process)).values():
        ran = [at for at in places if rows[at]["status"] != Status.SKIPPED] or places
        kept = [at for at in ran if not is_smoke(rows[at])] or ran
        times[kept[-1]] = len(kept)
    newest = sorted(times)
    counts = pd.Series([times[at] for at in newest], dtype="int64")
    return runs.iloc[newest].reset_index(drop=True).assign(measured_times=counts)


def environment_letters(runs: pd.DataFrame) -> pd.Series:
    """Returns the letter of the environment of each run; `runs` is in the order of their start.

    Environments are named as they appear: A, B, ..., Z, E27, E28, ... A number follows (`A.2`) if
    the source of a row's model is not the first one in that environment.
    """
    numbers: dict[Any, int] = {None: -1}
    ids = _filled(runs["environment_id"], runs["device"].tolist())
    letters = [letter(numbers.setdefault(environment, len(numbers) - 1)) for environment in ids]
    models = runs.assign(_letter=letters)  # a loss also has a source
    work = codes(models, ("_letter", "model", *STEP)).tolist()
    sources = _filled(runs["model_source_id"], work)
    versions: dict[int, dict[Any, int]] = {}
    names = []
    for name, code, source in zip(letters, work, sources, strict=True):
        of_work = versions.setdefault(code, {})
        version = of_work.setdefault(source, len(of_work)) + 1
        names.append(name if version < 2 else f"{name}.{version}")
    return per_row(runs, names, "str")


def _filled(ids: pd.Series, by: Sequence[Any]) -> list[Any]:
    """Returns `ids` with each null replaced by the last id before it, else the first after it.

    Only ids at positions with the same value in `by` are used.
    """
    filled: list[Any] = ids.astype("object").where(ids.notna(), None).tolist()
    for places in grouped((key, at) for at, key in enumerate(by)).values():
        last = next((filled[at] for at in places if filled[at] is not None), None)
        for at in places:
            last = filled[at] = last if filled[at] is None else filled[at]
    return filled


def letter(code: int) -> str:
    """Returns the letter of environment number `code`, counted from 0; `?` for -1 (unknown)."""
    return "?" if code < 0 else ascii_uppercase[code] if code < 26 else f"E{code + 1}"


def split_table(rows: pd.DataFrame, by: tuple[str, ...]) -> Iterator[pd.DataFrame]:
    """Splits `rows` into tables with equal values in the columns `by`, sorted by these values."""
    groups = rows.groupby(list(by), dropna=False, sort=False)
    yield from (part for _, part in sorted(groups, key=lambda item: natural_key(by, item[0])))


def split_rows(rows: Sequence[Row], by: tuple[str, ...]) -> list[list[Row]]:
    """Splits a list of rows as `split_table` splits a table; faster if there are many groups."""
    groups = grouped((values_of(row, by), row) for row in rows)
    return [groups[values] for values in sorted(groups, key=lambda values: natural_key(by, values))]


def codes(rows: pd.DataFrame, by: Iterable[str]) -> NDArray[np.int64]:
    """Returns a number for each row, equal for rows with equal values in `by`; null equals null."""
    found = np.zeros(len(rows), np.int64)
    for name in by:
        of_column, different = pd.factorize(rows[name], use_na_sentinel=False)
        if len(different) > 1:
            found = pd.factorize(found * len(different) + of_column)[0]
    return found


def values_of(row: Mapping[str, Any], by: tuple[str, ...]) -> tuple[Any, ...]:
    """Returns the values of `row` in the columns `by`, as a key to group rows."""
    return tuple(row[name] for name in by)


def per_row(rows: pd.DataFrame, values: Iterable[Any], dtype: Any = "float64") -> pd.Series:
    """Returns a column for the table `rows`, made of one value for each row."""
    column: pd.Series = pd.Series(list(values), index=rows.index, dtype=dtype)
    return column


def same_baseline(rows: pd.DataFrame) -> pd.Series:
    """Returns a number for each row, equal for rows with equal values in SAME_BASELINE."""
    return per_row(rows, codes(rows, SAME_BASELINE), "int64")


def are_on_cuda(rows: pd.DataFrame) -> pd.Series:
    """Returns whether each row ran on a GPU."""
    return per_row(rows, map(on_cuda, as_rows(rows[["device"]])), "bool")


def natural_key(by: tuple[str, ...], values: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
    """Returns a sorting key for `values`, the values of the columns `by`.

    Shapes are sorted by their numbers (batch 8 before batch 64), and nulls last, but warm data and
    weights with all their bits first. Training with fewer options comes first.
    """
    named = zip(by, values, strict=True)
    return tuple(
        (bool(pd.isna(v)) != (name in ("data", "quantize")), "" if pd.isna(v) else _order(name, v))
        for name, v in named
    )


def _order(name: str, value: Any) -> Any:
    if name == "training":
        return len(json.loads(value)), value
    return tuple(json.loads(value).items()) if name == "shape" else value


def is_plain(row: Row) -> bool:
    """Whether a row is plain eager: not compiled, captured or autocast, with any grad axis."""
    compiles_optimizer = '"compile_optimizer":true' in str(row.get("training"))
    plain = all(value_of(row, axis) == value for axis, value in PLAIN_EAGER.items())
    return plain and not compiles_optimizer


TRUSTED = ("status", "in_effect", "budget_rank", "speedup")
"""The columns that `trusted` reads."""


def trusted(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows that may be charted and recommended.

    These rows ended ok, were in effect, had more than a smoke budget and have an interval.
    """
    in_effect = (rows["status"] == Status.OK) & (rows["in_effect"].eq(True))
    return rows[in_effect & (rows["budget_rank"] > 0) & lows(rows["speedup"]).notna()]


def ordered(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns derived `rows` sorted by section, and within a section the fastest first.

    Rows without a speedup, which include smoke runs, come last.
    """
    keys = [*SECTION, "_speedup", "dtype", "mode"]
    keys[keys.index("data")] = "_cold"  # warm data come first
    shown = rows.assign(_speedup=over_common_baseline(rows), _cold=rows["data"].fillna(""))
    rising = [key != "_speedup" for key in keys]
    shown = shown.sort_values(keys, ascending=rising, ignore_index=True)
    return shown.drop(columns=["_speedup", "_cold"])


def over_common_baseline(rows: pd.DataFrame) -> pd.Series:
    """Returns the speedups by which rows of a section are sorted: chained ones where known."""
    paired = values(rows["speedup"]).where(rows["budget_rank"] > 0)
    return values(rows["chained_speedup"]).fillna(paired)


def distinguishing_options(rows: pd.DataFrame) -> pd.Series:
    """Returns the column `apart`: what tells a row from others of the same name, or None.

    It is a text of the options that differ, `fullgraph=false`; where they do not suffice, the
    case's id.
    """
    names = codes(rows, (*FAMILY, *NAME))
    texts: list[list[str]] = [[] for _ in names]
    for name in OPTIONS:
        differ = np.flatnonzero(_several(codes(rows, [name]), names))
        known = as_rows(rows[[name]].iloc[differ]) if len(differ) else []
        for at, row in zip(differ, known, strict=True):
            texts[at].append(f"{name}={_value(value_of(row, name))}")
    same = pd.DataFrame(
        {"name": names, "shape": rows["shape"].tolist(), "text": [*map(tuple, texts)]}
    )
    for at in np.flatnonzero(same.duplicated(keep=False)):
        texts[at].append(f"case {rows['case_id'].iloc[at][:8]}")
    return per_row(rows, (", ".join(options) or None for options in texts), "object")


def _several(values: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns for each row whether its group has several values."""
    some_value, found = np.empty_like(groups), np.zeros(len(groups), bool)
    some_value[groups] = values
    found[groups[values != some_value[groups]]] = True
    return found[groups]


def _value(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # an integer column with nulls holds floats
    return value if isinstance(value, str) else json.dumps(value)

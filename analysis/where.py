"""The option `--where`: a condition in DuckDB's SQL that chooses the rows that are shown.

Users type the condition, or copy it from a page. It is therefore read as one expression over the
columns of the table, in a database that cannot access files.
"""

from __future__ import annotations

import argparse
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from modescope.bench.records.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

EXAMPLE = "--where \"mode = 'compile' and speedup > 1.1\""
_TEXT = re.compile(r"'(?:[^']|'')*'|\"((?:[^\"]|\"\")*)\"")
_UNKNOWN = re.compile(r'Referenced column "([^"]+)" not found')
_BEFORE_TEXT = r"(?:=|<>|\blike\b|\bin\s*\()\s*"
_WORD = re.compile(r"\w+")
_POSITION = "_position"
_CONFINED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "threads": "1",
}


def add_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option --where to `parser`."""
    parser.add_argument(
        "--where", metavar="CONDITION",
        help="show only rows that match, in DuckDB's SQL over the columns of results/README.md: "
        "\"mode = 'compile' and speedup > 1.1\", \"'contended' in flags\", \"speedup is null\"",
    )  # fmt: skip


def words(condition: str) -> frozenset[str]:
    """Returns the words in `condition`, lower-case: all columns that it names are among them."""
    return frozenset(_WORD.findall(condition.lower()))


def select(rows: pd.DataFrame, condition: str) -> pd.DataFrame:
    """Returns the rows for which `condition` holds; raises UsageError if it is not valid.

    Text may be in single or double quotes. A comparison with null never holds.
    """
    import duckdb  # takes 0.14 s

    from modescope.analysis.metrics import flat

    if not condition.strip():
        raise UsageError(f"--where is empty; write for example {EXAMPLE}")
    source = _TEXT.sub(_in_single_quotes, condition)
    every = flat(_named(rows, condition))
    with duckdb.connect(":memory:", config=_CONFINED) as connection:
        connection.execute("set python_enable_replacements = false")
        connection.execute("set lock_configuration = true")
        try:
            table = connection.from_arrow(_arrow_table(every))
            kinds = table.project(source).types
            if [str(kind) for kind in kinds] != ["BOOLEAN"]:
                raise UsageError(_wrong(condition, "it is no condition"))
            found = table.filter(source).project(_POSITION).fetchall()
        except duckdb.Error as error:
            raise UsageError(_wrong(condition, _reason(error, condition, every))) from None
    return rows.iloc[sorted(place for (place,) in found)]


def _named(rows: pd.DataFrame, condition: str) -> pd.DataFrame:
    """Returns the columns of `rows` that `condition` may read; to convert all takes long."""
    from modescope.analysis.metrics import exported

    known = words(condition)
    if "columns" in known:  # COLUMNS(...) chooses some by a pattern
        return rows
    return rows[[name for name in rows if not known.isdisjoint(exported(str(name)))]]


def count(rows: pd.DataFrame, total: int, condition: str) -> str:
    """Returns how many rows match: `0 of 22 rows match --where "mode = 'amp'"`."""
    return f"{len(rows)} of {total} rows match --where {condition!r}"


def _in_single_quotes(text: re.Match[str]) -> str:
    if text[1] is None:
        return text[0]
    return "'" + text[1].replace('""', '"').replace("'", "''") + "'"


def _arrow_table(rows: pd.DataFrame) -> pa.Table:
    import pyarrow as pa

    from modescope.bench.records.parquet import SCHEMA

    columns = {}
    for name in map(str, rows.columns):
        known = SCHEMA.field(name).type if name in SCHEMA.names else None
        values = pa.array(rows[name], type=known, from_pandas=True)
        if pa.types.is_null(values.type):
            values = values.cast(pa.string())
        elif pa.types.is_list(values.type) and pa.types.is_null(values.type.value_type):
            values = values.cast(pa.list_(pa.string()))
        columns[name] = values
    return pa.table(columns | {_POSITION: pa.array(range(len(rows)), pa.int64())})


def _wrong(condition: str, why: str) -> str:
    return f"--where {condition!r}: {why}; text is in quotes, as in {EXAMPLE}"


def _reason(error: Exception, condition: str, rows: pd.DataFrame) -> str:
    if unknown := _UNKNOWN.search(str(error)):
        if re.search(_BEFORE_TEXT + re.escape(unknown[1]), condition, re.IGNORECASE):
            return f"{unknown[1]} is no column; as text it is '{unknown[1]}'"
        from modescope.analysis.metrics import NAMES

        meant = get_close_matches(unknown[1], [*rows, *NAMES], n=1)
        return f"no column {unknown[1]}{f', the nearest is {meant[0]}' if meant else ''}"
    return " ".join(str(error).partition("\n\n")[0].split())

"""`--where`: the rows that a condition keeps, and the one line on a wrong one."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pytest

from modescope.analysis.metrics import DERIVED
from modescope.analysis.where import select
from modescope.bench.records.errors import UsageError
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.paths import CONF
from tests.helpers.derivations import table_of
from tests.helpers.studies import not_measured, record, save


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Six rows of different modes; the last one was skipped, so its measured columns are null."""
    records = [
        record("eager", speedup=1.0, batch=1),
        record("no_grad", speedup=1.02, batch=8, flags=("drift",)),
        record("amp", speedup=2.0, batch=64, error=3e-3, flags=("drift", "contended")),
        record("compile", speedup=1.3, batch=8, graph_breaks=2, fullgraph=False),
        record("max-autotune", speedup=1.4, batch=8, graph_breaks=0, in_effect=False),
        not_measured("cuda-graph", "skipped", "no GPU", batch=None, error=None),
    ]
    return table_of(save(records, tmp_path_factory.mktemp("study")))


@pytest.mark.parametrize(
    ("condition", "modes"),
    [
        ("mode = 'compile'", ["compile"]),
        ('mode == "compile"', ["compile"]),
        ("reason = 'it''s \"no\" GPU'", []),
        ('"drift" in flags', ["no_grad", "amp"]),
        ("len(flags) = 0 and status = 'ok'", ["eager", "compile", "max-autotune"]),
        ("speedup > 1.1", ["amp", "compile", "max-autotune"]),
        ("speedup is null", ["cuda-graph"]),
        ("break_even_calls < 'inf'::double", ["compile"]),
        ("not fullgraph and graph_breaks > 0", ["compile"]),
        ("speedup > 1.1 -- a remark", ["amp", "compile", "max-autotune"]),
    ],
)
def test_a_condition_keeps_its_rows(rows: pd.DataFrame, condition: str, modes: list[str]) -> None:
    assert [*select(rows, condition)["mode"]] == modes


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("", "is empty"),
        ("mod = 'compile'", "no column mod, the nearest is mode"),
        ("mode = compile", "as text it is 'compile'; text is in quotes"),
        ("mode in (compile, eager)", "as text it is 'compile'"),
        ("speedup > latency", "no column latency, the nearest is latency_s"),
        ("mode", "it is no condition"),
        ("count(*) > 1", "ggregates"),
        ("mode = 'eager'; drop table rows", "Parser Error"),
        ("(select count(*) from read_csv('/etc/passwd')) > 0", "disabled"),
        ("(select count(*) from rows) > 0", "rows"),
        ("getenv('HOME') = 'x'", "getenv"),
    ],
)
def test_a_wrong_condition_is_one_line(rows: pd.DataFrame, condition: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        select(rows, condition)
    line = str(raised.value)
    assert line.startswith("--where")
    assert said in line
    assert "\n" not in line


def test_nothing_is_written(rows: pd.DataFrame, tmp_path: Path) -> None:
    target = tmp_path / "stolen.csv"
    for condition in (f"copy (select 1) to '{target}'", f"mode in (copy (select 1) to '{target}')"):
        with pytest.raises(UsageError):
            select(rows, condition)
    assert not target.exists()


def test_no_column_has_the_name_of_a_mode_or_of_a_reserved_word() -> None:
    """`mode = compile` would compare two columns and keep nothing, silently."""
    reserved = duckdb.sql(
        "select keyword_name from duckdb_keywords() where keyword_category = 'reserved'"
    ).fetchall()
    modes = {path.stem for path in (CONF / "mode").glob("*.yaml")}
    columns = {*SCHEMA.names, *DERIVED}
    assert {"compile", "eager"} <= modes
    assert not columns & (modes | {word for (word,) in reserved})

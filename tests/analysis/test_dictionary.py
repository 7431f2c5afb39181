from __future__ import annotations

import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any, NotRequired

import pytest

from modescope.analysis import dictionary
from modescope.analysis.derive.against import against
from modescope.analysis.metrics import DERIVED
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.gap_steps import STEPS, TRIALS
from modescope.bench.records.outcomes import Checked, Status
from modescope.bench.records.parquet import SCHEMA
from tests.helpers.derivations import table_of
from tests.helpers.paths import REFERENCE, ROOT

SUMMARY_ONLY = {
    "baseline_latency_s", "paced_latency", *(f"step_{step.name}" for step in STEPS),
    *(f"with_{trial.name}" for trial in TRIALS),
}  # fmt: skip
"""Estimates whose intervals nothing derives."""


def test_both_files_match_records_and_metrics() -> None:
    assert dictionary.PATH.read_text(encoding="utf-8") == dictionary.text(), (
        "results/README.md is out of date: run `python -m analysis.dictionary`"
    )
    assert dictionary.TYPE_PATH.read_text(encoding="utf-8") == dictionary.row_type(), (
        "analysis/rows/type.py is out of date: run `python -m analysis.dictionary`"
    )


def test_every_column_is_explained() -> None:
    text = dictionary.text()
    names = {*SCHEMA.names, *DERIVED}
    ends = {name for name in names if "_ci_low" in name or "_ci_high" in name}
    assert [name for name in names - ends if f"\n- `{name}`" not in text] == []
    values = {re.sub("_ci_(low|high)", "", name) for name in ends} - SUMMARY_ONLY
    assert [name for name in values if f"\n- `{name}` ±" not in text] == []


TYPES = typing.get_type_hints(Row, include_extras=True)


@pytest.mark.parametrize("study", ["amd-epyc-2-cores", "nvidia-h100", "nvidia-h100/training"])
def test_a_derived_row_is_of_the_type_of_rows(study: str) -> None:
    table = table_of(str(REFERENCE / study))
    always = {name for name, hint in TYPES.items() if typing.get_origin(hint) is not NotRequired}
    assert {*table.columns} == always
    for row in as_rows(against(table, "eager")):
        wrong = {name: value for name, value in row.items() if not _fits(value, TYPES[name])}
        assert wrong == {}


MISSPELT = """
from modescope.analysis.rows.type import Row

def known(row: Row) -> float | None:
    return row["latency_p95_s"]

def misspelt(row: Row) -> float | None:
    return row["spedup"]
"""


@pytest.mark.full
def test_a_misspelt_column_fails_the_type_checker(tmp_path: Path) -> None:
    (tmp_path / "modescope").mkdir()
    for name in ("analysis", "bench", "modescope/__init__.py", "modescope/py.typed"):
        (tmp_path / "modescope" / Path(name).name).symlink_to(ROOT / name)
    (tmp_path / "read.py").write_text(MISSPELT, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "read.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    error, found = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    assert error == 'read.py:8: error: TypedDict "Row" has no key "spedup"  [typeddict-item]'
    assert found.startswith("Found 1 error ")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; any list may stand for a sequence, any number for a float."""
    if typing.get_origin(hint) is NotRequired:
        (hint,) = typing.get_args(hint)
    if type(None) in typing.get_args(hint):
        return value is None or _fits(value, typing.get_args(hint)[0])
    if origin := typing.get_origin(hint):
        (kind,) = typing.get_args(hint)
        is_list = isinstance(value, list) if origin is list else not isinstance(value, str)
        return is_list and all(isinstance(each, kind) for each in value)
    if hint in (Status, Checked):  # files hold their texts
        return value in {str(member) for member in hint}
    return type(value) is hint or (hint is float and type(value) is int)

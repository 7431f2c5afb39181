"""One world from its cases to the derived table: every column has the value worked out by hand.

Of whatever is compared, the two sides differ in it: times, dtypes, rounds, errors, processes, the
machines' speed. So a part that reads the wrong side, or a default in place of what it is given,
shows here, though it may pass the tests of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis import metrics
from modescope.analysis.derive.select import ADDED
from modescope.analysis.recommend.decide import recommend
from modescope.bench.records import parquet
from modescope.bench.records.results import row
from modescope.bench.records.summary_columns import SUMMARY
from modescope.bench.sweep import isolation
from modescope.bench.sweep.attempt import attempt
from tests.helpers.commands import rows_in
from tests.helpers.derivations import table_of
from tests.seams import given, values, world
from tests.seams.machine import Machine
from tests.seams.values import DERIVED, STORED, Lasted, Text, by_column

EXACT = 1e-6
"""Relative."""

ROUGH = dict.fromkeys(
    ("ceiling_flops_per_s", "ceiling_bytes_per_s", "floor_s", "roofline_fraction"), 1e-4
) | dict.fromkeys(("warmup_s", "timed_s", "clocks_s"), 1e-3)
"""Columns with a larger tolerance: what else is in them, such as marks and readings of the clock,
is not worked out."""


@pytest.fixture(scope="module")
def results_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("world")


@pytest.fixture(scope="module")
def machines(
    settings_restored_after_module: None, as_in_a_child: None, results_dir: Path
) -> dict[str, Machine]:
    """Measures every process of the world; the machines afterwards."""
    return {name: world.measured(name, results_dir) for name in world.RUNS}


@pytest.fixture(scope="module")
def study(results_dir: Path, machines: dict[str, Machine]) -> Path:
    """The study with the measured rows and the given ones."""
    for record in given.ROWS.values():
        parquet.write(row(record), results_dir / world.STUDY / "rows")
    return results_dir / world.STUDY


@pytest.fixture(scope="module")
def stored(study: Path) -> dict[str, dict[str, Any]]:
    rows = [row for file in (study / "rows").iterdir() for row in rows_in(file)]
    return {row["run_id"]: row for row in rows}


@pytest.fixture(scope="module")
def derived(study: Path) -> pd.DataFrame:
    """Every metric as other programs get them, by the processes of a row."""
    return metrics.derived(str(study)).set_index("process_run_ids", drop=False)


def same(found: Any, expected: Any, tolerance: float = EXACT) -> bool:
    """Whether a column holds what is expected; null is neither nan nor 0."""
    if isinstance(expected, bool) or expected is None or found is None:
        return found is expected
    if isinstance(expected, float):
        return bool(found == pytest.approx(expected, rel=tolerance, nan_ok=True))
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(expected == found)


COLUMNS = {
    "stored": [name for name in parquet.SCHEMA.names if name not in SUMMARY.names],
    "derived": [*metrics.DERIVED, *ADDED, "rounds", "peak_bytes"],
}
TOLD = {"stored": by_column(STORED), "derived": by_column(DERIVED)}


@pytest.mark.parametrize("table", COLUMNS)
def test_every_column_has_a_value_somewhere(table: str) -> None:
    told = {name for row in TOLD[table].values() for name, v in row.items() if v is not None}
    assert set(COLUMNS[table]) - told == values.NEVER & set(COLUMNS[table])
    assert told <= set(COLUMNS[table])


def wrong(found: dict[str, dict[str, Any]], told: values.Rows) -> list[str]:
    """A line for each value that is not the expected one."""
    return [
        f"{name} of {row}: {found[row][name]} instead of {expected}"
        for row, columns in told.items()
        for name, expected in columns.items()
        if not same(found[row][name], expected, ROUGH.get(name, EXACT))
    ]


def test_stored_columns(stored: dict[str, dict[str, Any]], machines: dict[str, Machine]) -> None:
    told = {row: {**columns} for row, columns in TOLD["stored"].items()}
    told["graph"] = dict.fromkeys(COLUMNS["stored"]) | told["graph"]
    for name, expected in told["graph"].items():
        if isinstance(expected, Lasted):
            told["graph"][name] = machines["graph"].lasted_s(expected.phase) - expected.less_s
    assert wrong(stored, told) == []


def test_the_summary_of_a_measured_row(stored: dict[str, dict[str, Any]]) -> None:
    """Of rows of one process each; what the samples of several give is in derived columns."""
    known = {*SUMMARY.names} - {"peak_bytes"}
    measured = {name for name, row in stored.items() if row["summary_version"] is not None}
    told = {
        row: {name: value for name, value in columns.items() if name in known}
        for row, columns in TOLD["derived"].items() if row in measured
    }  # fmt: skip
    for name, columns in by_column(values.SUMMARISED).items():
        told[name] |= columns
    assert wrong(stored, told) == []
    assert sum(map(len, told.values())) > 50


def test_derived_columns(derived: pd.DataFrame) -> None:
    found = {
        str(row): {str(name): None if not isinstance(cell, list) and pd.isna(cell) else cell
                   for name, cell in cells.items()}
        for row, cells in derived[COLUMNS["derived"]].to_dict("index").items()
    }  # fmt: skip
    told = {row: {**columns} for row, columns in TOLD["derived"].items()}
    told["graph"] = dict.fromkeys(COLUMNS["derived"]) | told["graph"]
    assert wrong(found, told) == []


def test_recommendations(study: Path) -> None:
    found = {
        (answer.question.dtype, answer.question.shape): (
            answer.outcome,
            answer.choice and answer.choice.run_id,
            [tie.row.run_id for tie in answer.tied],
            {each.run_id: each.kind for each in answer.refused},
        )
        for answer in recommend(table_of(study))
    }
    assert found == values.ANSWERS


def test_a_kill_for_want_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel counts one kill more from the moment at which the process dies."""
    died = tmp_path / "died"
    monkeypatch.setattr(isolation, "_oom_kills", lambda: 6 + died.exists())
    row = attempt(world.killed(died, tmp_path))
    assert (row["status"], row["reason"]) == ("oom", Text(r"out-of-memory .* during reference$"))

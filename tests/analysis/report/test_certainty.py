"""What stands beneath an answer on the first screen: its price, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.format.phrases import as_rows
from modescope.analysis.metrics.registry import derived
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.report.certainty import by_work, facts
from modescope.analysis.report.study import Study
from modescope.analysis.rows.select import ordered
from modescope.bench.records.ids import canonical_json
from modescope.bench.records.results import Record
from tests.helpers.studies import record, replicates, save


def _facts(folder: Path, records: Sequence[Record]) -> dict[str, str]:
    rows = ordered(derived(save(records, folder)))
    answers = recommend(rows)
    study = Study("study", "study", rows, answers, {})
    by_id = {row["run_id"]: row for row in as_rows(rows)}
    return dict(facts(answers, by_id, by_work(study)))


def _sizes(*batches: int) -> list[Record]:
    return [
        record("compile", speedup=1.5, shape=canonical_json({"batch": n}), batch=n,
               first_call_s=float(n), error=n * 1e-3, error_limit=1.0, baseline_error=n * 1e-6)
        for n in batches
    ]  # fmt: skip


def test_of_several_sizes_the_ends_of_ranges_are_told(tmp_path: Path) -> None:
    told = _facts(tmp_path, _sizes(4, 1, 8))
    assert told["First call"] == "compile fp32 1.00 s to 8.00 s"
    assert told["Error"] == (
        "compile fp32 1.0e-3 to 8.0e-3, eager fp32 1.0e-6 to 8.0e-6 (relative, against float64)"
    )


def test_the_noise_floor_is_the_widest_of_all_sizes(tmp_path: Path) -> None:
    controls = [
        record("eager", speedup=1.0, spread=spread, shape=canonical_json({"batch": n}), batch=n)
        for n, spread in ((1, 0.02), (8, 0.05))
    ]
    told = _facts(tmp_path, [*_sizes(1, 8), *controls])
    assert told["Noise floor"].startswith("eager fp32 against itself within [0.98")
    assert told["Noise floor"].endswith("at every measured size")
    one = _facts(tmp_path / "one", [*_sizes(1), controls[0]])
    assert one["Noise floor"] == "eager fp32 against itself 1.000× [0.993, 1.007]"


def test_without_a_control_nothing_is_said_of_the_noise_floor(tmp_path: Path) -> None:
    assert "Noise floor" not in _facts(tmp_path, _sizes(1))


def test_the_least_certain_row_decides_what_would_have_shown(tmp_path: Path) -> None:
    sure = _facts(tmp_path / "sure", [record(spread=0.01)])
    unsure = _facts(tmp_path / "unsure", [record(spread=0.01), record("no_grad", spread=0.2)])
    sizes = [float(told["May be missed"].split()[2]) for told in (sure, unsure)]
    assert sizes[0] < sizes[1]


def test_where_nothing_is_recommended_there_is_no_price(tmp_path: Path) -> None:
    told = _facts(tmp_path, [record("compile", speedup=1.0), record("eager", speedup=1.0)])
    assert {"First call", "Error"}.isdisjoint(told)


def test_the_spread_between_processes_is_known_of_rows_with_several(tmp_path: Path) -> None:
    assert _facts(tmp_path / "1", [record()])["Between processes"].startswith("unknown")
    some = _facts(tmp_path / "2", [*replicates(3), record("eager", speedup=1.0)])
    assert some["Between processes"].startswith("known for 1 of 2 rows (3 processes or more)")


OF_FLOAT64 = " (relative, against float64)"


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"checked": "exact"}, f"compile fp32 2.1e-7, eager fp32 2.0e-7{OF_FLOAT64}"),
        ({"checked_against": "fp32"},
         "compile fp32 2.1e-7, eager fp32 2.0e-7 (relative, against float64 or eager)"),
        ({"checked": "without_randomness", "baseline_error": None},
         f"compile fp32 (in a copy without randomness) 2.1e-7{OF_FLOAT64}"),
        ({"checked": "not", "error": 0.8},
         f"compile fp32 (not checked) 8.0e-1, eager fp32 2.0e-7{OF_FLOAT64}"),
        ({"checked": "not", "error": None, "baseline_error": None}, "compile fp32 (not checked) –"),
    ],
)  # fmt: skip
def test_what_the_error_is_of_is_told(tmp_path: Path, columns: dict[str, Any], told: str) -> None:
    facts_told = _facts(tmp_path, [record("compile", speedup=1.5, **columns)])
    assert facts_told["Error"] == told

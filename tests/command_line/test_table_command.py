"""`python -m analysis.table` and `.why`: which rows they show, and every column as CSV."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis import table, why
from modescope.analysis.metrics import CONTRACT, derived
from modescope.analysis.report import __main__ as report
from modescope.bench.records.parquet import SAMPLES
from tests.helpers.derivations import table_of
from tests.helpers.studies import ROUNDS_OF_CLOCKS, cpu_sweep, not_measured, record, save

FLAGS = ("drift", "contended")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All eleven modes on a CPU, one of them with two flags."""
    *others, last = cpu_sweep()
    folder = tmp_path_factory.mktemp("sweep")
    return save([*others, replace(last, findings=replace(last.findings, flags=FLAGS))], folder)


def test_a_condition_that_matches_no_row_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save([record("eager"), record("compile")], tmp_path)
    condition = "'contended' in flags"
    said = f'0 of 2 rows match --where "{condition}"\n'
    assert table.main([str(tmp_path), "--where", condition]) == 0
    assert capsys.readouterr() == (said, "")
    assert table.main([str(tmp_path), "--csv", "--where", condition]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("run_id,case_id,study,")
    assert out.count("\n") == 1
    assert err == said


def test_chosen_rows_are_still_explained_by_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    eager = record("eager", speedup=1.0, spread=0.002)
    save([eager, record("inference_mode", speedup=1.25), record("amp", speedup=0.2)], tmp_path)
    assert why.main([str(tmp_path), "--where", 'mode == "eager"']) == 0
    text = capsys.readouterr().out
    assert "[grad_left_on] eager is the baseline" in text  # by inference_mode, which is left out
    assert "amp" not in text
    assert why.main([str(tmp_path), "--where", "speedup > 9"]) == 0
    assert capsys.readouterr().out == "0 of 3 rows match --where 'speedup > 9'\n"


def test_modes_whose_baseline_fails_are_shown_and_not_recommended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = "the baseline eager fails: no kernel; choose another baseline.mode"
    alone: dict[str, Any] = {"flags": ("baseline_failed",), "baseline_note": note}
    alone |= {"baseline_latency_rounds_s": None, "case_ran_first": None}
    fast, slow = (record(mode, s, **alone) for mode, s in (("no_grad", 2e-4), ("compile", 4e-4)))
    save([not_measured("eager", "failed", "no kernel"), fast, slow], tmp_path)
    assert table.main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert [text in said for text in ("200 µs", "400 µs", f"* {note}", "2 no baseline")] == [
        True
    ] * 4
    assert why.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(note) == 2
    assert report.main([str(tmp_path)]) == 0
    assert note in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")


def test_csv_has_every_column_in_full_precision_and_where_reads_them(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table.main([str(study), "--csv"]) == 0
    read = pd.read_csv(io.StringIO(capsys.readouterr().out)).set_index("run_id", drop=False)
    stored = derived(study)
    assert set(read.columns) == set(stored.columns)
    assert tuple(read.columns[: len(CONTRACT)]) == CONTRACT
    assert not {*SAMPLES} & {*read}
    speedups = stored.set_index("run_id")["speedup"]
    assert dict(read["speedup"].dropna()) == dict(speedups.dropna())
    flags = dict(zip(read["mode"], read["flags"], strict=True))
    assert flags["amp-compile"] == "drift;contended"
    options = ["--csv", "--against", "inference_mode", "--where", "mode = 'compile'"]
    assert table.main([str(study), *options]) == 0
    (row,) = pd.read_csv(io.StringIO(capsys.readouterr().out)).to_dict("records")
    whole = read.set_index("mode").loc["compile"]
    assert row["speedup_same_grad"] == whole["speedup_same_grad"] > 1
    assert row["against_speedup"] == pytest.approx(1.311 / 1.034, rel=1e-3)


def test_a_long_summary_is_cut_and_names_the_command_for_the_rest(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = table_of(study)
    assert table.summary(rows, Path("s")) == table.text(rows)
    monkeypatch.setattr(table, "MOST_ROWS", 4)
    assert table.summary(rows, Path("s")).endswith("\n7 more: modescope table s")


def test_an_unknown_dispatch_has_its_reason_below_the_table(tmp_path: Path) -> None:
    note = "aten.arange works on an empty batch, too"
    unknown = record("eager", dispatch_rounds_s=None, dispatch_note=note)
    known = record("no_grad", dispatch_rounds_s=(2e-5,) * ROUNDS_OF_CLOCKS, dispatch_note=None)
    assert f"\ndispatch is unknown: {note}" in table.text(table_of(save([unknown], tmp_path / "a")))
    assert note not in table.text(table_of(save([unknown, known], tmp_path / "b")))

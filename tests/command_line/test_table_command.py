from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from modescope.analysis import table
from modescope.analysis.derive.registry import CONTRACT, derived
from modescope.analysis.report import report
from modescope.bench.records.parquet import SAMPLES
from tests.helpers.studies import (
    cpu_sweep,
    record,
    save,
)

FLAGS = ("drift", "contended")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All eleven modes on a CPU, one of them with two flags."""
    *others, last = cpu_sweep()
    folder = tmp_path_factory.mktemp("sweep")
    return save([*others, replace(last, findings=replace(last.findings, flags=FLAGS))], folder)


def test_a_smoke_run_has_no_speedup_in_a_table(tmp_path: Path) -> None:
    smoke = record("eager", speedup=2.06, budget="smoke", rounds=3)
    reference = record("inference_mode", speedup=1.1)
    other = record("compile", speedup=1.9, budget="smoke", rounds=3)
    rows = derived(save([smoke, reference, other], tmp_path))
    text = table.text(rows)
    lines = [line for line in text.splitlines() if "budget=smoke" in line]
    assert len(lines) == 2
    assert not any("×" in line for line in lines)
    assert text.splitlines()[2].startswith(" inference_mode")  # rows without a speedup come last
    assert table.summary(rows, 4).splitlines()[2].startswith(" inference_mode")
    csv = pd.read_csv(io.StringIO(table.csv(rows))).set_index("mode")
    assert csv.loc["eager", "speedup"] == pytest.approx(2.06)  # beside its budget
    assert csv["verdict"].isna().tolist() == [False, True, True]


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
    assert report.main([str(tmp_path), "--where", condition]) == 2
    assert capsys.readouterr().err.startswith(f"error: {said.strip()}, so no report of ")
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("prepare", [lambda folder: None, lambda folder: save([], folder)])
def test_a_missing_or_empty_study_is_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prepare: Callable[[Path], object]
) -> None:
    prepare(tmp_path / "study")
    assert table.main([str(tmp_path / "study")]) == 2
    assert "study" in capsys.readouterr().err


def _complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence on stderr about a command line that ends with status 2."""
    for program in (table, report):
        assert program.main(list(arguments)) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1
    return err


def test_a_study_in_another_folder_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save([record()], tmp_path / "results" / "tr")
    monkeypatch.chdir(tmp_path)
    for named in ("tr", "results/tr/rows", "results/tr/report/index.html"):
        assert f"no study at {named} " in _complaint(capsys, named)
        assert _complaint(capsys, named).endswith("; did you mean results/tr?\n")


def _compared(folder: Path) -> Path:
    modes = (("eager", 0.99), ("inference_mode", 1.25), ("compile", 1.5))
    records = [record(mode, speedup=speedup) for mode, speedup in modes]
    return save([*records, record("compile", model="mlp")], folder)


def test_against_a_mode_the_table_shows_ratios_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table.main([str(_compared(tmp_path)), "--against", "inference_mode"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("inference · AMD EPYC 9554, 1 thread · against inference_mode fp32")
    cells = {line.split()[0]: re.split(" {2,}", line.strip()) for line in lines[2:5]}
    assert list(cells) == ["compile", "inference_mode", "eager"]
    assert cells["compile"][3:5] == ["1.20× [1.15, 1.25]", "faster"]
    assert cells["inference_mode"][3:5] == ["1.00×", "–"]
    assert cells["eager"][3:5] == ["0.800× [0.795, 0.805]", "slower"]
    notes = " ".join(" ".join(lines[5:]).split())
    assert "widened by 3 %" in notes
    assert "not shown: 1 row that has no inference_mode of the same work and baseline" in notes
    assert "mlp, batch 4, seq 64, inference" in notes
    assert "recommend" not in notes


@pytest.mark.parametrize(
    "options",
    [
        ["--where", "mod = 'x'"],
        ["--where", "mode", "=", "compile"],
        ["--wheree=1"],
        ["--against", "fast"],
        ["--against", "compile", "fp32"],
        ["--against", "compile", "--calls", "9"],
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    study: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert table.main([str(study), *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1


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


def test_a_long_summary_is_cut_and_names_the_command_for_the_rest(study: Path) -> None:
    rows = derived(study)
    lines = table.summary(rows, 10).splitlines()
    assert len(lines) <= 10
    assert lines[-1].endswith("more: python -m analysis.table results/main")
    assert table.summary(rows, 40) == table.text(rows)

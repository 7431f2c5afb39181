from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from modescope.analysis import table
from modescope.analysis.derive.registry import CONTRACT, derived
from modescope.analysis.format.paragraphs import WIDTH
from modescope.analysis.load import samples as load
from modescope.analysis.report import report
from modescope.bench.records.parquet import SAMPLES
from tests.helpers.pass_columns import cuda_passes
from tests.helpers.studies import (
    cpu_sweep,
    cuda_sweep,
    not_measured,
    record,
    save,
)


def test_runs_without_a_row_are_listed(tmp_path: Path) -> None:
    seeds = [not_measured("compile", "failed", "not today", seed=3), record(seed=4)]
    replicates = [record("eager"), not_measured("eager", "oom", "no room", replicate=1)]
    runs = load(save([*seeds, *replicates, not_measured("amp", "skipped", "why")], tmp_path))
    assert table.not_shown(runs, derived(tmp_path)) == [
        "compile fp32, transformer, batch 4, seq 64, inference, seed 3, replicate 0: failed: not "
        "today",
        "eager fp32, transformer, batch 4, seq 64, inference, seed 0, replicate 1: oom: no room",
    ]


def _titles(text: str) -> list[str]:
    return re.split(" {2,}", text.splitlines()[0].strip())


def test_csv_has_the_columns_of_the_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(cuda_passes(), tmp_path)
    assert table.main([str(tmp_path), "--csv"]) == 0
    read = pd.read_csv(io.StringIO(capsys.readouterr().out), dtype=str).set_index("mode")
    assert set(CONTRACT) <= {"mode", *read.columns}
    row = read.to_dict("index")["reduce-overhead"]
    assert (row["kernels"], row["launches"], row["graph_launches"]) == ("9", "0", "1")
    weights = 64 * 2**20
    assert row["peak_bytes"] == str(weights + weights // 100 + 14 * 2**20)  # the whole pool
    assert row["bytes_saved"] == str(30 * 2**20)
    assert float(row["fusion_gain"]) == pytest.approx(1.6)


def test_optional_columns_are_dropped_to_fit_the_width(tmp_path: Path) -> None:
    narrow = table.text(derived(save([record("compile")], tmp_path / "narrow")))
    assert "first call" in _titles(narrow)
    wide = table.text(derived(save([*cuda_sweep(), *cpu_sweep("mlp")], tmp_path / "wide")))
    assert max(map(len, wide.splitlines())) <= WIDTH
    assert {"same grad", "dispatch", "verdict", "pays after"} <= set(_titles(wide))
    assert not {"first call", "host"} & set(_titles(wide))


@pytest.mark.parametrize(
    "limit", [pytest.param(6, marks=pytest.mark.full), 10, pytest.param(40, marks=pytest.mark.full)]
)
def test_a_long_summary_is_cut_and_names_the_command_for_the_rest(
    tmp_path: Path, limit: int
) -> None:
    models = ("a", "b", "c", "d")
    records = [one for model in models for one in cpu_sweep(model)]
    rows = derived(save([*records, not_measured("eager", "oom", "no room", model="e")], tmp_path))
    lines = table.summary(rows, limit).splitlines()
    assert len(lines) <= limit
    assert any("oom: no room" in line for line in lines)
    assert lines[-1].endswith("more: python -m analysis.table results/main")


def test_a_summary_that_fits_is_not_cut(tmp_path: Path) -> None:
    rows = derived(save([*cpu_sweep("mlp"), *cpu_sweep("transformer")], tmp_path))
    assert table.summary(rows, 40) == table.text(rows)


def test_csv_has_the_documented_columns_in_full_precision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save([record(flags=("drift", "bimodal")), not_measured("amp", "skipped", "why")], tmp_path)
    assert table.main([str(tmp_path), "--csv"]) == 0
    read = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert list(read.columns[:6]) == [
        "run_id", "case_id", "study", "started_at", "budget", "replicates",
    ]  # fmt: skip
    stored = derived(tmp_path).set_index("run_id")["speedup"]
    assert dict(read.set_index("run_id")["speedup"].dropna()) == dict(stored.dropna())
    assert read["flags"][0] == "drift;bimodal"
    assert read["latency_s"].isna().tolist() == [False, True]


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


def test_csv_has_every_column_of_the_derived_table(tmp_path: Path) -> None:
    rows = derived(save([record(throttle_reasons=("hw_thermal", "hw_slowdown"))], tmp_path))
    read = pd.read_csv(io.StringIO(table.csv(rows)))
    assert set(read.columns) == set(rows.columns)
    assert tuple(read.columns[: len(CONTRACT)]) == CONTRACT
    assert {"fullgraph", "graph_breaks", "dispatch_note", "host", "error_limit"} <= set(read)
    assert not {*SAMPLES} & set(read)
    assert read["throttle_reasons"][0] == "hw_thermal;hw_slowdown"


QUESTIONS = {
    "'contended' in flags": ["no_grad", "compile"],
    "compile_mode != 'none' and graph_breaks > 0": ["compile", "max-autotune"],
    "error > 10 * baseline_error": ["amp", "reduce-overhead"],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_where_and_csv_answer_common_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], question: str
) -> None:
    save([
        record("eager", graph_breaks=None), record("no_grad", flags=("drift", "contended")),
        record("amp", error=3e-3), record("inference_mode", error=1.9e-6),
        record("compile", graph_breaks=1, flags=("contended",), fullgraph=False),
        record("max-autotune", graph_breaks=3, fullgraph=False, in_effect=False),
        record("reduce-overhead", status="wrong_result", reason="wrong", error=0.3, graph_breaks=0),
        not_measured("cuda-graph", "skipped", "no GPU", error=None),
    ], tmp_path)  # fmt: skip
    assert table.main([str(tmp_path), "--csv", "--where", question]) == 0
    out, err = capsys.readouterr()
    assert sorted(pd.read_csv(io.StringIO(out))["mode"]) == sorted(QUESTIONS[question])
    assert err == ""


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


def test_where_shows_matching_rows_compared_with_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(cpu_sweep(), tmp_path)
    assert table.main([str(tmp_path), "--csv"]) == 0
    whole = pd.read_csv(io.StringIO(capsys.readouterr().out)).set_index("mode")
    assert table.main([str(tmp_path), "--csv", "--where", "mode = 'compile'"]) == 0
    (row,) = pd.read_csv(io.StringIO(capsys.readouterr().out)).to_dict("records")
    assert row["speedup_same_grad"] == whole.loc["compile", "speedup_same_grad"] > 1


@pytest.mark.parametrize("condition", ["mod = 'x'", "mode = compile", "1", ""])
def test_a_bad_where_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: str
) -> None:
    save([record()], tmp_path)
    assert table.main([str(tmp_path), "--where", condition]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --where ")
    assert error.count("\n") == 1


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


def test_an_invalid_command_line_is_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(save([record()], tmp_path))
    assert "expected one study, got 2 (A, B)" in _complaint(capsys, "A", "B")
    assert "got 3 (A, B, C)" in _complaint(capsys, "A", "--calls", "3", "B", "C")
    assert "unknown option --wheree" in _complaint(capsys, folder, "--wheree=1")
    assert "--where: expected one argument" in _complaint(capsys, folder, "--where")


@pytest.mark.parametrize("study", [(), ("results/main",)])
def test_a_condition_split_by_the_shell_needs_quotes(
    capsys: pytest.CaptureFixture[str], study: tuple[str, ...]
) -> None:
    said = _complaint(capsys, *study, "--where", "mode", "=", "compile")
    assert "--where received only mode, as the shell splits words at spaces" in said


def test_without_causes_nothing_stands_beneath_the_table(tmp_path: Path) -> None:
    assert table.why(derived(save([record("eager", speedup=1.0)], tmp_path))) == ""


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


def test_against_a_mode_with_replicates_nothing_is_widened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        record(mode, speedup=speedup + 0.002 * number, replicate=number)
        for mode, speedup in (("inference_mode", 1.25), ("compile", 1.5))
        for number in range(3)
    ]
    assert table.main([str(save(records, tmp_path)), "--against", "inference_mode"]) == 0
    text = capsys.readouterr().out
    assert "widened" not in text
    assert "processes of its own" in text


def test_against_a_mode_csv_has_its_columns_and_where_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--csv", "--against", "inference_mode", "--where", "against_speedup > 1.1"]
    assert table.main([str(_compared(tmp_path)), *options]) == 0
    (row,) = pd.read_csv(io.StringIO(capsys.readouterr().out)).to_dict("records")
    assert (row["mode"], row["against_mode"], row["baseline_mode"]) == (
        "compile", "inference_mode", "eager",
    )  # fmt: skip
    assert row["against_speedup"] == pytest.approx(1.2)
    assert row["speedup"] == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--against", "fast"],
            "--against fast: no row has this mode; there is compile, eager and",
        ),
        (["--against", "compile", "fp32"], "in single quotes: --against 'compile fp32'"),
        (["--against", "compile", "--calls", "9"], "leave out either --against or them"),
        (["--against", "compile", "--memory-limit", "8GB"], "which --against does not print"),
    ],
)
def test_mistakes_with_against_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    assert table.main([str(_compared(tmp_path)), *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert sentence in error
    assert error.count("\n") == 1


def test_a_precision_without_quotes_is_noticed_in_the_place_of_a_study(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert table.main(["--against", "compile", "bf16"]) == 2
    assert "--against 'compile bf16'" in capsys.readouterr().err

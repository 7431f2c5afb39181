"""A study's rows with their statistics, in order, and warnings on files that are left out."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from modescope.analysis import compact, load, table
from modescope.bench.records.errors import UsageError
from modescope.bench.records.parquet import SCHEMA
from tests.helpers.findings import rounds_of
from tests.helpers.studies import cpu_sweep, record, save


def test_rows_are_in_order_of_start_with_all_their_flags(tmp_path: Path) -> None:
    late, early = (
        record("amp", started_at="2026-03-02T00:00:00Z", flags=("drift", "bimodal")),
        record("eager", started_at="2026-03-01T00:00:00Z"),
    )
    runs = load.read(save([late, early], tmp_path)).table
    assert list(runs["mode"]) == ["eager", "amp"]
    assert list(runs["flags"]) == [[], ["drift", "bimodal"]]
    stored = load.samples(tmp_path)
    assert list(stored.columns) == SCHEMA.names
    assert tuple(stored["latency_rounds_s"][1]) == rounds_of(late.findings).latency_rounds_s


def test_left_out_files_are_named_in_warnings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save([record("eager"), record("compile")], tmp_path)
    (folder / "rows" / "bad.parquet").touch()
    with caplog.at_level(logging.WARNING):
        runs = load.read(folder)
    assert sorted(runs.table["mode"]) == ["compile", "eager"]
    (message,) = caplog.messages
    assert message.startswith(f"left out {folder / 'rows' / 'bad.parquet'}: it cannot be read")
    assert runs.left_out.keys() == {"bad.parquet"}


def test_a_missing_study_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where results/ holds no study that the message would name
    with pytest.raises(UsageError, match=r"nowhere.*`modescope run study=NAME`"):
        load.read(tmp_path / "nowhere")
    study = tmp_path / "alone" / "study"  # no neighbour's name is like it
    study.mkdir(parents=True)
    (study / "rows").touch()
    with pytest.raises(UsageError, match="modescope run"):
        load.read(study)


def test_the_table_is_the_same_after_a_compaction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def csv() -> str:
        assert table.main([str(tmp_path), "--csv"]) == 0
        return capsys.readouterr().out

    save(cpu_sweep(), tmp_path)
    before = csv()
    assert compact.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'rows'}: 11 rows joined, from 11 files\n"
    assert csv() == before
    assert len([*(tmp_path / "rows").iterdir()]) == 1


@pytest.mark.parametrize("study", ["nowhere", "s3://bucket/main"])
def test_only_local_studies_are_compacted(study: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compact.main([study]) == 2
    assert capsys.readouterr().err.count("\n") == 1

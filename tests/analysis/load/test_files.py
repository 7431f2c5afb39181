from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from modescope.analysis import table
from modescope.analysis.load import files, migrations, study
from modescope.analysis.load import samples as loading
from modescope.analysis.load.samples import load
from modescope.analysis.report import report
from modescope.bench.records.errors import UsageError
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.results import SCHEMA_VERSION
from tests.helpers.invalid_files import BAD, SPOILED, spoil_every_way
from tests.helpers.paths import ROOT
from tests.helpers.studies import record, save

Read = Callable[[Path], pd.DataFrame]

# Both ways to read a study: with its samples, and with the statistics of them.
READERS: list[Read] = [load, lambda folder: study.read(folder).table]
both = pytest.mark.parametrize("read", READERS, ids=["samples", "answers"])


def test_loaded_runs_are_in_order_of_start_with_lists_as_arrays(tmp_path: Path) -> None:
    late, early = (
        record("amp", started_at="2026-03-02T00:00:00Z", flags=("drift", "bimodal")),
        record("eager", started_at="2026-03-01T00:00:00Z"),
    )
    runs = load(save([late, early], tmp_path))
    assert list(runs["mode"]) == ["eager", "amp"]
    assert list(runs.columns) == SCHEMA.names
    assert isinstance(runs["latency_rounds_s"][0], np.ndarray)
    assert tuple(runs["latency_rounds_s"][1]) == late.findings.latency_rounds_s
    assert list(runs["flags"][1]) == ["drift", "bimodal"]


@both
@pytest.mark.parametrize("kind", SPOILED)
def test_invalid_files_are_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, read: Read
) -> None:
    spoil, reason = SPOILED[kind]
    folder = save([record("eager"), record("compile")], tmp_path)
    spoil(folder / "runs")
    with caplog.at_level(logging.WARNING):
        runs = read(folder)
    assert sorted(runs["mode"]) == ["compile", "eager"]
    (message,) = caplog.messages
    assert message.startswith(f"left out {folder / 'runs' / BAD}: it ")
    assert reason in message
    assert "\n" not in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@both
def test_a_file_without_read_permission_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, read: Read
) -> None:
    folder = save([record("eager"), record("compile")], tmp_path)
    first = min((folder / "runs").iterdir())
    first.chmod(0)
    with caplog.at_level(logging.WARNING):
        assert len(read(folder)) == 1
    assert f"left out {first}: it cannot be opened (Permission denied)" in caplog.messages


def test_a_file_that_cannot_be_opened_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save([record()], tmp_path)
    whole = Path.read_bytes

    def refused(path: Path) -> bytes:
        if path.name == BAD:
            raise PermissionError(13, "Permission denied")
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    (folder / "runs" / BAD).touch()
    with caplog.at_level(logging.WARNING):
        assert len(load(folder)) == 1
    assert caplog.messages[0].endswith("it cannot be opened (Permission denied)")


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two runs among files of every kind, each named after its kind."""
    folder = save([record("eager"), record("compile")], tmp_path_factory.mktemp("study"))
    spoil_every_way(folder / "runs")
    return folder


def test_valid_runs_are_printed_and_each_invalid_file_is_named(spoiled: Path) -> None:
    command = [sys.executable, "-m", "analysis.table", str(spoiled)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert " compile " in done.stdout
    assert " eager " in done.stdout
    named, (last,) = done.stderr.splitlines()[:-1], done.stderr.splitlines()[-1:]
    assert len(named) == loading.MOST_NAMED
    for number, (line, (_, reason)) in enumerate(zip(named, SPOILED.values(), strict=False)):
        assert line.startswith(f"warning: left out {spoiled / 'runs'}/bad-{number:02d}.parquet: it")
        assert reason in line
    more = len(SPOILED) - loading.MOST_NAMED
    assert last.startswith(f"warning: left out {more} more files in {spoiled / 'runs'}: ")


@pytest.mark.parametrize("program", [table, report])
def test_the_report_has_the_valid_runs_of_a_damaged_study(
    spoiled: Path, program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main([str(spoiled)]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("program", [table, report])
def test_a_study_without_valid_runs_is_status_2(
    tmp_path: Path, program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / BAD).touch()
    assert program.main([str(tmp_path)]) == 2
    assert "no run could be read" in capsys.readouterr().err


def test_skipped_files_have_a_reason(tmp_path: Path) -> None:
    folder = save([record()], tmp_path)
    (folder / "runs" / BAD).touch()
    assert study.read(folder).left_out == {BAD: "is empty"}


@both
def test_a_renamed_run_file_is_read(tmp_path: Path, read: Read) -> None:
    folder = save([record()], tmp_path)
    (path,) = (folder / "runs").iterdir()
    path.rename(path.with_name("mine.parquet"))
    assert len(read(folder)) == 1


@both
def test_of_copies_the_file_named_after_the_run_is_read(tmp_path: Path, read: Read) -> None:
    folder = save([record("eager")], tmp_path)
    (path,) = (folder / "runs").iterdir()
    path.with_name("a.parquet").write_bytes(path.read_bytes())
    path.with_name("z.parquet").write_bytes(path.read_bytes())
    assert len(read(folder)) == 1
    assert set(study.read(folder).left_out) == {"a.parquet", "z.parquet"}


def test_an_older_file_is_migrated_to_the_current_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A made-up version 0 has the latency in microseconds, under another name."""

    def to_version_1(run: pa.Table) -> pa.Table:
        seconds = pa.compute.divide(run["first_call_us"], 1e6)
        return run.drop_columns("first_call_us").append_column("first_call_s", seconds)

    folder = save([record("eager", first_call_s=3.5)], tmp_path)
    (path,) = (folder / "runs").iterdir()
    ours = pq.read_table(path)
    first = ours.column_names.index("schema_version")
    ours = ours.set_column(first, "schema_version", [[SCHEMA_VERSION - 1]])
    microseconds = pa.compute.multiply(ours["first_call_s"], 1e6)
    ours = ours.drop_columns("first_call_s").append_column("first_call_us", microseconds)
    pq.write_table(ours, path)
    monkeypatch.setitem(migrations.MIGRATIONS, SCHEMA_VERSION - 1, to_version_1)
    (found,) = load(folder).to_dict("records")
    assert found["first_call_s"] == pytest.approx(3.5)
    assert found["schema_version"] == SCHEMA_VERSION


@both
def test_partial_files_are_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, read: Read
) -> None:
    folder = save([record()], tmp_path)
    (folder / "runs" / ".next.parquet").write_bytes(b"half")
    (folder / "runs" / "notes.txt").write_text("mine")
    assert len(read(folder)) == 1
    assert caplog.messages == []


@both
def test_a_column_added_since_is_null(tmp_path: Path, read: Read) -> None:
    folder = save([record()], tmp_path)
    (path,) = (folder / "runs").glob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["warmup_s", "flags"]), path)
    runs = read(folder)
    assert runs["warmup_s"].isna().all()


@both
def test_an_unknown_column_of_a_later_modescope_is_ignored(tmp_path: Path, read: Read) -> None:
    folder = save([record()], tmp_path)
    (path,) = (folder / "runs").glob("*.parquet")
    pq.write_table(pq.read_table(path).append_column("mood", [["fine"]]), path)
    assert "mood" not in read(folder)


@both
def test_a_missing_study_is_a_usage_error(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where results/ holds no study that the message would name
    with pytest.raises(UsageError, match=r"nowhere.*`modescope run study=NAME`"):
        read(tmp_path / "nowhere")
    (tmp_path / "runs").touch()
    with pytest.raises(UsageError, match="modescope run"):
        read(tmp_path)


def test_a_folder_that_cannot_be_listed_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    folder = save([record()], tmp_path)
    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        load(folder)


def test_rows_of_an_older_column_set_are_read_about_as_fast(tmp_path: Path) -> None:
    """Each row written before a column was added lacks it."""
    folder = save([record("eager")], tmp_path) / "runs"
    (path,) = folder.iterdir()
    older = tmp_path / "older.parquet"
    pq.write_table(pq.read_table(path).drop_columns([SCHEMA.names[-1]]), older)

    def cpu_s(file: Path) -> float:
        begin = time.process_time()
        assert isinstance(files.read(file), pa.Table)
        return time.process_time() - begin

    now_s, then_s = (min(cpu_s(file) for _ in range(10)) for file in (path, older))
    assert then_s < 2 * now_s

"""Parts hold what the files held, at any moment of a compaction, and for every command."""

from __future__ import annotations

import io
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from modescope.analysis.compact import command, compaction, loose, part_file, small_parts
from modescope.analysis.compact.compaction import compact
from modescope.analysis.load import cache, files, migrations, parts, samples, study
from modescope.bench.records import parquet, sources
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.results import SCHEMA_VERSION
from tests.helpers.compacting import csv, loose_files, put_back
from tests.helpers.invalid_files import SPOILED, spoil_every_way
from tests.helpers.pass_columns import cpu_passes, cuda_passes
from tests.helpers.studies import cpu_sweep, cuda_sweep, not_measured, record, replicates, save

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = (
        *cpu_sweep(), *cuda_sweep(model="mlp"), *cpu_passes(), *cuda_passes(),
        *replicates(3, model="other"), not_measured("amp", "oom", "no room", model="large"),
    )  # fmt: skip
    return save(records, tmp_path_factory.mktemp("template"))


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """A study with every kind of row."""
    return shutil.copytree(template, tmp_path / "study")


@pytest.fixture(scope="module")
def small_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(replicates(3), tmp_path_factory.mktemp("small"))


@pytest.fixture
def small(small_template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(small_template, tmp_path / "study")


def test_parts_hold_all_runs_with_every_column(folder: Path) -> None:
    before, table_before = samples.load(folder), csv(folder)
    done = compact(folder)
    assert done.runs == len(before)
    assert (done.parts, done.left, loose_files(folder)) == (1, {}, [])
    pd.testing.assert_frame_equal(samples.load(folder), before)
    assert csv(folder) == table_before


def test_a_part_is_read_without_its_samples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compact(folder)
    expected = study.read(folder).table

    def refused(*_: object) -> None:
        raise AssertionError("samples were read")

    monkeypatch.setattr(parts, "summarised", refused)
    pd.testing.assert_frame_equal(study.read(folder).table, expected)


def test_statistics_of_another_code_are_computed_anew_and_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact(folder)
    expected = study.read(folder).table
    monkeypatch.setattr(cache, "reader", lambda: "another")
    computed: list[int] = []
    whole = parts.summarised

    def counted(rows: pa.Table) -> pa.Table:
        computed.append(rows.num_rows)
        return whole(rows)

    monkeypatch.setattr(parts, "summarised", counted)
    for _ in range(2):
        pd.testing.assert_frame_equal(study.read(folder).table, expected)
    assert sum(computed) == len(expected)


def test_a_run_in_a_file_and_in_a_part_counts_once(folder: Path, template: Path) -> None:
    before, table_before = samples.load(folder), csv(folder)
    compact(folder)
    put_back(template, folder, 5)
    assert csv(folder) == table_before
    assert study.read(folder).left_out == {}
    pd.testing.assert_frame_equal(samples.load(folder), before)
    done = compact(folder)
    assert (done.runs, done.removed, loose_files(folder)) == (0, 5, [])


def test_a_run_exists_in_a_file_and_in_a_part(folder: Path) -> None:
    run_id = samples.load(folder)["run_id"].iloc[3]
    assert sources.exists(folder, run_id)
    compact(folder)
    assert sources.exists(folder, run_id)
    assert not sources.exists(folder, f"{run_id}0")
    (path,) = sources.parts(folder)
    path.write_bytes(b"damaged")
    assert not sources.exists(folder, run_id)


def test_a_part_is_removed_only_for_one_that_can_be_read(folder: Path, template: Path) -> None:
    """As where an older part is restored, because the merged one is damaged."""
    half = len(loose_files(folder)) // 2
    for path in sorted((folder / "runs").iterdir())[half:]:
        path.unlink()
    compact(folder)
    (older,) = sources.parts(folder)
    kept = older.read_bytes()
    put_back(template, folder)
    compact(folder)
    (merged,) = sources.parts(folder)
    content = bytearray(merged.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = bytes(2000)
    merged.write_bytes(content)
    older.write_bytes(kept)
    compact(folder)
    assert older.exists()
    assert len(samples.load(folder)) == half


def test_new_runs_are_added_and_small_parts_merged(folder: Path, template: Path) -> None:
    everything = csv(folder)
    files = sorted((folder / "runs").iterdir())
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    for path in files:
        path.rename(elsewhere / path.name)
    for start in range(0, len(files), 7):
        for path in files[start : start + 7]:
            shutil.move(elsewhere / path.name, folder / "runs")
        done = compact(folder)
    assert csv(folder) == everything
    assert done.parts < 3
    assert done.parts == len(sources.parts(folder))


def test_parts_are_limited_and_rows_of_a_work_lie_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MOST_ROWS", 20)
    monkeypatch.setattr(loose, "GROUP_ROWS", 8)
    monkeypatch.setattr(part_file, "GROUP_ROWS", 8)
    monkeypatch.setattr(small_parts, "GROUP_ROWS", 8)
    before = csv(folder)
    compact(folder)
    assert csv(folder) == before
    models = []
    for path in sources.parts(folder):
        with pq.ParquetFile(path) as file:
            assert file.metadata.num_rows <= 20
            of_part = file.read(columns=["model"])["model"].to_pylist()
            assert of_part == sorted(of_part)
            models += of_part
            at = file.schema_arrow.names.index("model")
            assert file.metadata.row_group(0).column(at).statistics.has_min_max
            assert file.metadata.row_group(0).column(at).compression == "ZSTD"
    assert len(models) == len(samples.load(folder))


def test_invalid_files_stay_and_are_named(
    small: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    before = csv(small)
    reasons = spoil_every_way(small / "runs", [kind for kind in SPOILED if kind != "a copy"])
    caplog.clear()
    assert command.main([str(small)]) == 0
    assert f"{len(reasons)} files stay" in " ".join(capsys.readouterr().out.split())
    assert f"bad-00.parquet: it {reasons['bad-00.parquet']}" in caplog.text
    assert loose_files(small) == sorted(reasons)
    left = compact(small).left
    assert {name: reason in left[name] for name, reason in reasons.items()} == dict.fromkeys(
        reasons, True
    )
    assert csv(small) == before


def test_a_copy_is_removed_only_if_it_is_equal(folder: Path) -> None:
    first, second, *_ = sorted((folder / "runs").iterdir())
    shutil.copy(first, folder / "runs" / "zzz.parquet")
    rows = pq.read_table(second)
    seed = rows.column_names.index("seed")
    pq.write_table(rows.set_column(seed, "seed", [[99]]), folder / "runs" / "aaa.parquet")
    done = compact(folder)
    assert loose_files(folder) == ["aaa.parquet"]
    assert "differs from the run" in done.left["aaa.parquet"]
    assert "is a copy of" in study.read(folder).left_out["aaa.parquet"]


def test_rows_of_other_schemas_are_kept_as_they_were_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older version, a column that is missing, and one that this modescope does not know."""
    older, missing, later, *_ = sorted((folder / "runs").iterdir())
    rows = pq.read_table(older)
    at = rows.column_names.index("schema_version")
    rows = rows.set_column(at, "schema_version", [[SCHEMA_VERSION - 1]])
    pq.write_table(rows.append_column("mood", [["old"]]), older)
    pq.write_table(pq.read_table(missing).drop_columns(["warmup_s"]), missing)
    pq.write_table(pq.read_table(later).append_column("mood", [["fine"]]), later)
    monkeypatch.setitem(
        migrations.MIGRATIONS, SCHEMA_VERSION - 1, lambda run: run.drop_columns(["mood"])
    )
    before, frame = csv(folder), samples.load(folder)
    done = compact(folder)
    assert (done.left, loose_files(folder), done.parts) == ({}, [], 4)
    assert csv(folder) == before
    assert csv(folder) == before  # from the cache
    pd.testing.assert_frame_equal(samples.load(folder), frame)
    kept = [pq.read_table(path).select(["mood"]).to_pylist() for path in sources.parts(folder)
            if "mood" in pq.read_schema(path).names]  # fmt: skip
    assert sorted(row["mood"] for rows in kept for row in rows) == ["fine", "old"]


def test_half_written_parts_are_ignored_and_removed(folder: Path) -> None:
    before = csv(folder)
    compact(folder)
    half = folder / "compact" / ".ab12.part-1.parquet.elsewhere-1.partial"
    gone = folder / "compact" / half.name.replace("elsewhere-1", f"{os.uname().nodename}-4194305")
    half.write_bytes(b"PAR1")
    gone.write_bytes(b"PAR1")
    assert csv(folder) == before
    compact(folder)
    assert half.exists(), "its owner may live on another machine"
    assert not gone.exists()


@pytest.mark.parametrize("place", [0.0001, 0.2, 0.5, 0.8, 0.99])
def test_a_damaged_part_stays_and_no_file_is_removed_for_it(
    small: Path, small_template: Path, place: float
) -> None:
    before = csv(small)
    compact(small)
    (path,) = sources.parts(small)
    content = bytearray(path.read_bytes())
    at = int(place * len(content))
    content[at : at + 2000] = bytes(2000)
    path.write_bytes(content)
    put_back(small_template, small)
    for _ in range(2):
        done = compact(small)
        assert path.exists()
        assert csv(small) == before, done
    path.unlink()
    assert csv(small) == before, "the files were removed"


def test_compactions_at_once_and_a_sweep_lose_nothing(folder: Path) -> None:
    new = [record("eager", run_id=f"new-{number}", case_id=f"new-{number}") for number in range(30)]
    saved = save(new, folder.parent / "new")
    for path in (saved / "runs").iterdir():
        shutil.copy2(path, folder / "runs")
    expected = csv(folder)
    for path in (saved / "runs").iterdir():
        (folder / "runs" / path.name).unlink()
    work = [threading.Thread(target=compact, args=(folder,)) for _ in range(3)]
    work += [threading.Thread(target=save, args=(new, folder))]
    reads: list[int] = []
    work += [threading.Thread(target=lambda: reads.append(len(study.read(folder).table)))]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert reads[0] >= len(pd.read_csv(io.StringIO(expected))) - 30
    assert csv(folder) == expected
    compact(folder)
    assert loose_files(folder) == []
    assert csv(folder) == expected


def test_files_that_a_compaction_removes_while_they_are_read_are_found_in_its_part(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = samples.load(folder)
    whole = files.read
    calls: list[Path] = []

    def read(path: Path) -> Any:
        if not calls:
            calls.append(path)
            compact(folder)
        return whole(path)

    monkeypatch.setattr(files, "read", read)
    pd.testing.assert_frame_equal(samples.load(folder), expected)


def test_a_full_disk_is_one_sentence_and_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, files = csv(folder), loose_files(folder)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert command.main([str(folder)]) == 2
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert error.count("\n") == 1
    assert (loose_files(folder), csv(folder)) == (files, before)
    assert sources.parts(folder) == []


def test_a_study_is_found_by_its_parts_alone(folder: Path) -> None:
    before = csv(folder)
    compact(folder)
    (folder / "runs").rmdir()
    assert csv(folder) == before


def test_what_was_done_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = len(loose_files(folder))
    assert command.main([str(folder)]) == 0
    assert capsys.readouterr().out.startswith(f"compacted {count} runs; ")
    assert command.main([str(folder)]) == 0
    assert capsys.readouterr().out.startswith("nothing to compact")
    assert command.main([str(folder / "nowhere")]) == 2
    assert "no study at" in capsys.readouterr().err
    assert command.main(["s3://bucket/main"]) == 2
    assert "only local studies" in capsys.readouterr().err


def test_every_column_of_the_schema_survives_a_merge(tmp_path: Path) -> None:
    one = record("eager", run_id="b", case_id="b")
    for records in ([one], [replace(one, attempt=replace(one.attempt, run_id="a"))]):
        save(records, tmp_path)
        compact(tmp_path)
    (path,) = sources.parts(tmp_path)
    rows = pq.read_table(path).select(SCHEMA.names)
    assert rows.schema.names == parquet.SCHEMA.names
    assert compaction.compact(tmp_path).parts == 1
    assert rows["latency_rounds_s"].to_pylist() == [list(one.findings.latency_rounds_s or ())] * 2

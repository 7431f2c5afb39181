"""Joined files hold what the loose ones held, at any moment of a compaction."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from modescope.bench.records import joining, rows
from modescope.bench.records.joining import join
from modescope.bench.records.parquet import SCHEMA
from tests.helpers.invalid_files import spoil_every_way
from tests.helpers.studies import cpu_sweep, cuda_sweep, not_measured, record, replicates, save


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = (*cpu_sweep(), *cuda_sweep(model="mlp"), *replicates(3, model="other"),
               not_measured("amp", "oom", "no room", model="large"))  # fmt: skip
    return save(records, tmp_path_factory.mktemp("template")) / "rows"


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """A folder with every kind of row, each in a file of its own."""
    return shutil.copytree(template, tmp_path / "rows")


def content(folder: Path) -> list[dict[str, Any]]:
    found = rows.read(folder)
    return list(found.table.select(SCHEMA.names).sort_by("run_id").to_pylist())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.parquet"))


def joined_file(folder: Path) -> Path:
    (path,) = folder.glob("part-*.parquet")
    return path


def test_every_row_survives_and_counts_once(folder: Path, template: Path) -> None:
    before = content(folder)
    done = join(folder)
    assert (done.joined, done.removed, done.left) == (21, 21, {})
    assert content(folder) == before
    assert names(folder) == [joined_file(folder).name]
    assert join(folder).removed == 0
    for path in sorted(template.iterdir())[:5]:  # as after a killed compaction
        shutil.copy(path, folder)
    assert content(folder) == before
    assert join(folder).removed == 6
    assert content(folder) == before
    assert names(folder) == [joined_file(folder).name]
    assert pq.read_metadata(joined_file(folder)).num_rows == 21


def test_rows_are_written_some_thousand_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(folder)
    monkeypatch.setattr(joining, "GROUP_ROWS", 8)
    join(folder)
    assert pq.read_metadata(joined_file(folder)).num_row_groups == 3
    save([record("eager", run_id="z", case_id="z")], folder.parent)
    assert join(folder).joined == 22
    assert content(folder)[:-1] == before


def test_bad_files_stay_and_are_named(folder: Path, template: Path) -> None:
    before = content(folder)
    join(folder)
    broken = joined_file(folder)
    damaged = bytearray(broken.read_bytes())
    damaged[len(damaged) // 2] ^= 255
    broken.write_bytes(damaged)
    shutil.copytree(template, folder, dirs_exist_ok=True)
    bad = {broken.name, *spoil_every_way(folder)}
    for _ in range(2):
        done = join(folder)
        assert {Path(path).name for path in done.left} == bad
        assert {*names(folder)} > bad
        assert len(names(folder)) == len(bad) + 1
        assert content(folder) == before


def test_a_file_that_is_not_found_is_not_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system may list a file before it shows its content."""
    before, groups = content(folder), rows.groups
    late = str(folder / names(folder)[3])

    def not_yet(path: str, *arguments: Any) -> Any:
        if path == late:
            raise FileNotFoundError(path)
        return groups(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(rows, "groups", not_yet)
        assert join(folder).removed == 20
    assert content(folder) == before


def test_a_full_disk_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, files = content(folder), names(folder)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        join(folder)
    assert (names(folder), content(folder)) == (files, before)


@pytest.mark.full
def test_compactions_at_once_and_a_sweep_lose_nothing(folder: Path, tmp_path: Path) -> None:
    new = [record("eager", run_id=f"new-{number}", case_id=f"new-{number}") for number in range(30)]
    before, counts = content(folder), list[int]()
    work = [threading.Thread(target=join, args=(folder,)) for _ in range(3)]
    work += [threading.Thread(target=save, args=(new, tmp_path))]
    work += [threading.Thread(target=lambda: counts.append(len(content(folder))))]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert counts[0] >= len(before)
    assert len(content(folder)) == len(before) + 30
    join(folder)
    assert len(content(folder)) == len(before) + 30

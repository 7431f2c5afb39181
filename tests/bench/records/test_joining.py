"""Joined files hold what the loose ones held, at any moment of a compaction."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from modescope.bench.records import rows
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


def damage(path: Path, place: float) -> None:
    whole = bytearray(path.read_bytes())
    at = int(place * len(whole))
    whole[at : at + 2000] = bytes(2000)
    path.write_bytes(whole)


def test_every_column_of_every_row_survives(folder: Path) -> None:
    before = content(folder)
    done = join(folder)
    assert (done.joined, done.removed, done.left) == (21, 21, {})
    assert content(folder) == before
    assert names(folder) == [joined_file(folder).name]
    assert join(folder).removed == 0


def test_new_rows_are_added_and_small_files_joined_again(folder: Path, template: Path) -> None:
    before, files = content(folder), sorted(template.iterdir())
    for path in files:
        (folder / path.name).unlink()
    for start in range(0, len(files), 4):
        for path in files[start : start + 4]:
            shutil.copy(path, folder)
        join(folder)
        assert len(names(folder)) <= 3
    assert content(folder) == before


def test_a_row_in_a_loose_and_a_joined_file_counts_once(folder: Path, template: Path) -> None:
    before = content(folder)
    join(folder)
    for path in sorted(template.iterdir())[:5]:
        shutil.copy(path, folder)
    assert content(folder) == before
    assert join(folder).removed == 5
    assert content(folder) == before
    assert len(names(folder)) == 1


@pytest.mark.parametrize("place", [0.0001, pytest.param(0.5, marks=pytest.mark.full)])
def test_nothing_is_removed_for_a_damaged_file(folder: Path, template: Path, place: float) -> None:
    before = content(folder)
    join(folder)
    broken = joined_file(folder)
    damage(broken, place)
    shutil.copytree(template, folder, dirs_exist_ok=True)
    for _ in range(2):
        join(folder)
        assert broken.exists()
        assert content(folder) == before
    broken.unlink()
    assert content(folder) == before


def test_bad_files_stay_and_are_named(folder: Path) -> None:
    before = content(folder)
    reasons = spoil_every_way(folder)
    later = folder / "later.parquet"
    pq.write_table(pq.read_table(min(folder.glob("run-*"))).append_column("mood", pa.array(["a"])),
                   later)  # fmt: skip
    done = join(folder)
    assert {Path(path).name for path in done.left} == {*reasons, later.name}
    assert names(folder) == sorted([*reasons, later.name, joined_file(folder).name])
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

"""Rows of loose and joined files: each once, none lost, and bad files named and left out."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from modescope.bench.records import parquet, rows
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.results import SCHEMA_VERSION, row
from modescope.bench.records.rows import join
from tests.helpers.studies import cpu_sweep, record, save, training

BAD = "bad.parquet"


def _run(runs: Path) -> Path:
    """The file of a valid run: the largest, which has samples."""
    return max(runs.glob("run-*.parquet"), key=lambda path: path.stat().st_size)


def _truncated(runs: Path) -> None:
    whole = _run(runs).read_bytes()
    (runs / BAD).write_bytes(whole[: len(whole) // 2])


def _empty(runs: Path) -> None:
    (runs / BAD).touch()


def _foreign(runs: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), runs / BAD)


def _newer(runs: Path) -> None:
    one = record()
    other = replace(one.attempt, schema_version=SCHEMA_VERSION + 1, run_id="bad")
    parquet.write(row(replace(one, attempt=other)), runs)


def _with(**columns: Any) -> Callable[[Path], None]:
    """A function that writes a run with these values in some columns, whatever their types."""

    def write(runs: Path) -> None:
        ours = pq.read_table(_run(runs))
        for name, value in columns.items():
            ours = ours.set_column(ours.column_names.index(name), name, [[value]])
        pq.write_table(ours, runs / BAD)

    return write


def _damaged_page(runs: Path) -> None:
    """Writes a run with one flipped bit in its samples, as a failing disk may leave it."""
    path = _run(runs)
    columns = pq.read_metadata(path).row_group(0)
    place = columns.column(columns.num_columns - 1).data_page_offset
    content = bytearray(path.read_bytes())
    content[place + 60] ^= 1
    (runs / BAD).write_bytes(content)


# kind -> function that makes the file, and the reason in the warning
SPOILED: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (_truncated, "cannot be read"),
    "empty": (_empty, "file size is 0 bytes"),
    "foreign": (_foreign, "is not a row of modescope"),
    "newer": (_newer, f"has schema version {SCHEMA_VERSION + 1}"),
    "other types": (_with(kernels="soon"), "cannot be read (Failed to parse"),
    "no details": (_with(details="none"), "cannot be read (JSON parse error"),
    "no object": (_with(details="[1]"), "cannot be read ("),
    "cut details": (_with(details='{"seed":1'), "cannot be read (JSON parse error"),
    "two details": (_with(details="{}\n{}"), "cannot be read (details are no"),
    "no number": (_with(details='{"seed":"soon"}'), "Column(/seed) changed"),
    "no text": (_with(details='{"command":5}'), "Column(/command) changed"),
    "no boolean": (_with(details='{"fullgraph":1}'), "Column(/fullgraph) changed"),
    "no list": (_with(details='{"flags":"drift"}'), "Column(/flags) changed"),
    "no name": (_with(run_id=None), "is not a row of modescope"),
    "a damaged page": (_damaged_page, "cannot be read"),
}


def spoil_every_way(runs: Path) -> dict[str, str]:
    """Writes an invalid file of each kind; returns its name -> the reason that a warning gives."""
    reasons = {}
    for number, (spoil, reason) in enumerate(SPOILED.values()):
        spoil(runs)
        name = f"bad-{number:02d}.parquet"
        (runs / BAD).rename(runs / name)
        reasons[name] = reason
    return reasons


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = (*cpu_sweep(), training("amp", model="mlp"))
    return save(records, tmp_path_factory.mktemp("template")) / "rows"


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """A folder of twelve rows, each in a file of its own."""
    return shutil.copytree(template, tmp_path / "rows")


def content(folder: Path) -> list[dict[str, Any]]:
    found = rows.read(folder)
    return list(found.table.select(SCHEMA.names).sort_by("run_id").to_pylist())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.parquet"))


def joined_file(folder: Path) -> Path:
    (path,) = folder.glob("part-*.parquet")
    return path


def test_bad_files_are_named_and_left_out_and_no_compaction_removes_them(
    folder: Path, template: Path
) -> None:
    before = content(folder)
    join(folder)
    broken = joined_file(folder)
    damaged = bytearray(broken.read_bytes())
    damaged[len(damaged) // 2] ^= 255
    broken.write_bytes(damaged)
    shutil.copytree(template, folder, dirs_exist_ok=True)
    reasons = {broken.name: "cannot be read", **spoil_every_way(folder)}
    for _ in range(2):
        left_out = {Path(path).name: why for path, why in rows.read(folder).left_out.items()}
        assert left_out.keys() == reasons.keys()
        for name, reason in reasons.items():
            assert reason in left_out[name]
            assert "\n" not in left_out[name]
        assert content(folder) == before
        assert {Path(path).name for path in join(folder).left} == reasons.keys()
        assert len(names(folder)) == len(reasons) + 1


def test_a_column_added_since_is_null_and_one_of_a_later_modescope_ignored(folder: Path) -> None:
    first, last = min(folder.iterdir()), max(folder.iterdir())
    pq.write_table(pq.read_table(first).drop_columns(["seq", "details"]), first)
    pq.write_table(pq.read_table(last).append_column("mood", pa.array(["fine"])), last)
    found = rows.read(folder)
    assert "mood" not in found.table.column_names
    assert found.table["flags"].null_count == found.table["seq"].null_count == 1


def test_files_that_are_joined_while_they_are_read_are_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, whole, calls = content(folder), rows.files_in, list[Path]()

    def listed(*arguments: Any) -> list[str] | None:
        paths = whole(*arguments)
        if not calls:
            calls.append(folder)
            join(folder)
        return paths

    monkeypatch.setattr(rows, "files_in", listed)
    assert content(folder) == before
    assert names(folder) == [joined_file(folder).name]


def test_every_row_survives_a_compaction_and_counts_once(
    folder: Path, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "GROUP_ROWS", 5)
    before = content(folder)
    assert join(folder) == rows.Joined(12, 12, {})
    assert content(folder) == before
    assert pq.read_metadata(joined_file(folder)).num_row_groups == 3
    assert join(folder).removed == 0
    for path in sorted(template.iterdir())[:5]:  # as after a killed compaction
        shutil.copy(path, folder)
    assert content(folder) == before
    assert join(folder) == rows.Joined(12, 6, {})
    assert content(folder) == before
    assert pq.read_metadata(joined_file(folder)).num_rows == 12


def test_a_file_that_is_not_found_is_not_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system may list a file before it shows its content."""
    before, groups = content(folder), rows._groups
    late = str(folder / names(folder)[3])

    def not_yet(path: str, *arguments: Any) -> Any:
        if path == late:
            raise FileNotFoundError(path)
        return groups(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(rows, "_groups", not_yet)
        assert join(folder).removed == 11
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

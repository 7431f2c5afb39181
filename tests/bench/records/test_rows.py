"""Rows of loose and joined files: each once, and bad files named and left out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from modescope.bench.records import rows
from modescope.bench.records.joining import join
from tests.helpers.invalid_files import spoil_every_way
from tests.helpers.studies import record, save


def modes(folder: Path) -> list[str]:
    found = rows.read(folder, ("schema_version", "run_id", "mode"))
    return sorted(found.table["mode"].to_pylist())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save([record("eager"), record("compile")], tmp_path) / "rows"


def test_bad_files_are_named_and_left_out(folder: Path) -> None:
    reasons = spoil_every_way(folder)
    found = rows.read(folder)
    assert sorted(found.table["mode"].to_pylist()) == ["compile", "eager"]
    left_out = {Path(path).name: why for path, why in found.left_out.items()}
    assert left_out.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert reason in left_out[name]
        assert "\n" not in left_out[name]


def test_a_copy_counts_once(folder: Path) -> None:
    first = min(folder.iterdir())
    (folder / "a.parquet").write_bytes(first.read_bytes())
    (folder / "z.parquet").write_bytes(first.read_bytes())
    assert modes(folder) == ["compile", "eager"]


def test_a_column_added_since_is_null_and_one_of_a_later_modescope_ignored(folder: Path) -> None:
    first = min(folder.iterdir())
    pq.write_table(pq.read_table(first).drop_columns(["seq", "details"]), first)
    last = max(folder.iterdir())
    pq.write_table(pq.read_table(last).append_column("mood", pa.array(["fine"])), last)
    found = rows.read(folder)
    assert "mood" not in found.table.column_names
    assert found.table["flags"].null_count == found.table["seq"].null_count == 1


def test_files_that_are_joined_while_they_are_read_are_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = rows.files, list[Path]()

    def listed(*arguments: object) -> list[str] | None:
        paths = whole(*arguments)  # type: ignore[arg-type]
        if not calls:
            calls.append(folder)
            join(folder)
        return paths

    monkeypatch.setattr(rows, "files", listed)
    assert modes(folder) == ["compile", "eager"]
    assert len([*folder.glob("*.parquet")]) == 1

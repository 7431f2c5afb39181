"""Files written atomically: complete under their name, or absent."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import NoReturn

import pytest

from modescope.bench.records.files import atomic_write


def write(path: Path, text: str, **options: bool) -> None:
    with atomic_write(path, **options) as partial:
        partial.write_text(text)


def test_the_name_appears_after_the_block(tmp_path: Path) -> None:
    path = tmp_path / "made" / "deep" / "file"
    with atomic_write(path) as partial:
        partial.write_text("complete")
        assert list(path.parent.iterdir()) == [partial]
    assert list(path.parent.iterdir()) == [path]
    assert path.read_text() == "complete"


def test_an_error_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, "old")

    def fail() -> NoReturn:
        with atomic_write(path) as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_writes_no_file_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, "old")
    with atomic_write(path) as partial:
        partial.write_text("too large")
        partial.unlink()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("sync", [True, False])
def test_with_sync_the_content_is_on_disk_before_the_name_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    synced: list[tuple[int, bool]] = []

    def fsync(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_size, (tmp_path / "file").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write(tmp_path / "file", "complete", sync=sync)
    assert synced == ([(8, False)] if sync else [])


def no_links(source: Path, target: Path) -> NoReturn:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("has_links", [True, False])
def test_without_overwrite_the_first_file_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "file"
    write(path, "first", overwrite=False)
    with pytest.raises(FileExistsError):
        write(path, "second", overwrite=False)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_of_two_concurrent_writers_the_last_to_end_wins(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path) as partial:
        partial.write_text("begun first")
        write(path, "begun second")
        assert path.read_text() == "begun second"
    assert path.read_text() == "begun first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.ENOENT])
def test_a_link_that_fails_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(source: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number), str(target))

    monkeypatch.setattr(os, "link", fail)
    with (
        pytest.raises(OSError, match=re.escape(os.strerror(number))),
        atomic_write(tmp_path / "claim", overwrite=False) as partial,
    ):
        partial.write_text("complete")
    assert list(tmp_path.iterdir()) == []


def test_without_links_a_rename_that_fails_leaves_no_empty_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    def fail(source: Path, target: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(os, "replace", fail)
    with (
        pytest.raises(OSError, match="Input/output error"),
        atomic_write(tmp_path / "claim", overwrite=False) as partial,
    ):
        partial.write_text("complete")
    assert list(tmp_path.iterdir()) == []

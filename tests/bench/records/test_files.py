"""Files are complete under their name or absent; those of killed processes are deleted."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.parquet as pq
import pytest

from modescope.bench.records import files, parquet
from modescope.bench.records.files import atomic_write
from tests.helpers.made_up_records import record
from tests.helpers.paths import ROOT


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


HERE = socket.gethostname()


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of these tests, so that they clear no other one."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "rows"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def dead() -> int:
    """Id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture(scope="module")
def living() -> Iterator[int]:
    """Id of another process that is running."""
    process = subprocess.Popen(["sleep", "60"])
    yield process.pid
    process.kill()
    process.wait()


def half_written(runs: Path, owner: str) -> Path:
    partial = runs / f".20260301T120000.000001-abc123.parquet.{owner}.partial"
    partial.write_bytes(b"PAR1")
    return partial


def compiler_cache(temporary: Path, owner: str) -> Path:
    folder = temporary / f"modescope-{owner}-x7_k2p9q"
    (folder / "triton").mkdir(parents=True)
    (folder / "triton" / "kernel.so").touch()
    return folder


def test_files_of_dead_processes_are_deleted(runs: Path, temporary: Path, dead: int) -> None:
    partial = half_written(runs, f"{HERE}-{dead}")
    folder = compiler_cache(temporary, f"{HERE}-{dead}")
    files.remove_abandoned(runs)
    assert not partial.exists()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["run.json.gz", "run.pickle", "ceilings.json", "run.parquet"])
def test_every_kind_of_leftover_is_deleted_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead: int, living: int, name: str
) -> None:
    folders = [tmp_path / "rows", tmp_path / "traces"]
    partials: dict[int, list[Path]] = {}
    for process in (dead, living):
        monkeypatch.setattr(files, "owner", lambda process=process: f"{HERE}-{process}")
        partials[process] = [files.partial_path(folder / name) for folder in folders]
    for path in (*partials[dead], *partials[living]):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    files.remove_abandoned(*folders)
    assert not any(path.exists() for path in partials[dead])
    assert all(path.exists() for path in partials[living])


def test_files_of_living_processes_are_kept(runs: Path, temporary: Path, living: int) -> None:
    owners = [f"{HERE}-{process}" for process in (living, os.getpid(), 1)]
    kept = [half_written(runs, owner) for owner in owners]
    kept += [compiler_cache(temporary, owner) for owner in owners]
    files.remove_abandoned(runs)
    assert all(path.exists() for path in kept)


def test_a_process_of_another_user_counts_as_alive(
    runs: Path, temporary: Path, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_allowed(process: int, signal: int) -> NoReturn:
        raise PermissionError(1, "Operation not permitted")

    kept = [half_written(runs, f"{HERE}-{dead}"), compiler_cache(temporary, f"{HERE}-{dead}")]
    monkeypatch.setattr(os, "kill", not_allowed)
    files.remove_abandoned(runs)
    assert all(path.exists() for path in kept)


@pytest.mark.parametrize("host", ["elsewhere", f"{HERE}-2", f"2-{HERE}", f"{HERE}.org", ""])
def test_files_of_other_hosts_are_kept(runs: Path, temporary: Path, dead: int, host: str) -> None:
    """On a shared file system that process may be alive where it runs."""
    kept = [half_written(runs, f"{host}-{dead}"), compiler_cache(temporary, f"{host}-{dead}")]
    files.remove_abandoned(runs)
    assert all(path.exists() for path in kept)


def test_an_old_file_of_another_host_is_deleted_by_the_clock_of_the_file_system(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = half_written(runs, "elsewhere-1"), half_written(runs, "elsewhere-2")
    monkeypatch.setattr(time, "time", lambda: 4e9)  # this machine's clock is decades ahead
    modified = new.stat().st_mtime - files.OLD_S - 1
    os.utime(old, (modified, modified))
    files.remove_abandoned(runs)
    assert list(runs.iterdir()) == [new]


@pytest.mark.parametrize("host", ["node-17", "node17.cluster.example.org", "a.parquet.b"])
def test_host_names_may_have_any_characters(
    runs: Path, temporary: Path, dead: int, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    gone = [half_written(runs, f"{host}-{dead}"), compiler_cache(temporary, f"{host}-{dead}")]
    files.remove_abandoned(runs)
    assert not any(path.exists() for path in gone)


def test_files_of_other_programs_are_kept(runs: Path, temporary: Path, dead: int) -> None:
    kept = [
        parquet.write(record(), runs),
        runs / ".partial",
        runs / ".hidden.partial",
        runs / f"{HERE}-{dead}.partial",
        temporary / "modescope",
        temporary / "modescope-",
        temporary / "modescope-notes.txt",
        temporary / f"modescope-{HERE}-99999999999999999999-abc",
        temporary / f"another-{HERE}-{dead}-abc",
    ]
    for path in kept[1:]:
        path.touch()
    files.remove_abandoned(runs)
    assert all(path.exists() for path in kept)


def test_a_missing_study_has_no_leftovers(tmp_path: Path) -> None:
    files.remove_abandoned(tmp_path / "no" / "rows")
    assert not (tmp_path / "no").exists()


def test_a_temporary_folder_is_deleted_after_its_block(temporary: Path) -> None:
    with files.temporary_folder() as folder:
        assert folder.parent == temporary
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "file").touch()
        files.remove_abandoned(temporary)
        assert (folder / "deep" / "file").exists()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_temporary_folder_is_deleted_after_an_exception(
    temporary: Path, error: type[BaseException]
) -> None:
    def fail() -> None:
        with files.temporary_folder():
            raise error

    with pytest.raises(error):
        fail()
    assert list(temporary.iterdir()) == []


DIES_WITHIN = """
import os, sys
from pathlib import Path
import pyarrow.parquet as pq
from modescope.bench.records import files, parquet as store
from tests.helpers.made_up_records import record

def die(*arguments, **options):
    with files.temporary_folder():
        os.kill(os.getpid(), 9)

pq.ParquetWriter.write_table = die
store.write(record(), Path(sys.argv[1]))
"""


def test_leftovers_of_a_killed_process_are_recognised(runs: Path, temporary: Path) -> None:
    """The names are those that a process chooses itself."""
    root = ROOT
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", DIES_WITHIN, runs], cwd=root, env=environment)
    assert done.returncode == -9
    assert [path.suffix for path in runs.iterdir()] == [".partial"]
    assert [path.name.startswith("modescope-") for path in temporary.iterdir()] == [True]
    files.remove_abandoned(runs)
    assert list(runs.iterdir()) == list(temporary.iterdir()) == []


def test_a_file_being_written_is_kept(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another sweep may start in the same study."""
    write_table = pq.ParquetWriter.write_table

    def meanwhile(*arguments: Any, **options: Any) -> None:
        write_table(*arguments, **options)
        files.remove_abandoned(runs)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", meanwhile)
    path = parquet.write(record(), runs)
    assert list(runs.iterdir()) == [path]

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from modescope.bench.records import files, parquet
from modescope.bench.records.files import atomic_write
from tests.helpers.made_up_records import record
from tests.helpers.paths import ROOT


def write(path: Path, text: str, **options: bool) -> None:
    with atomic_write(path, **options) as partial:
        partial.write_text(text)


def test_the_name_appears_after_the_block_unless_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "made" / "deep" / "file"
    with atomic_write(path) as partial:
        partial.write_text("complete")
        assert list(path.parent.iterdir()) == [partial]
    assert path.read_text() == "complete"
    with pytest.raises(ZeroDivisionError), atomic_write(path) as partial:
        assert partial.write_text("half") / 0
    with atomic_write(path) as partial:  # too large, say
        partial.write_text("more")
        partial.unlink()
    assert path.read_text() == "complete"
    assert list(path.parent.iterdir()) == [path]


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


def failing(number: int) -> Callable[..., NoReturn]:
    def fail(source: Path, target: Path) -> NoReturn:
        raise OSError(number, os.strerror(number), str(target))

    return fail


@pytest.mark.parametrize("has_links", [True, False])
def test_without_overwrite_the_first_file_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", failing(errno.EPERM))
    path = tmp_path / "file"
    write(path, "first", overwrite=False)
    with pytest.raises(FileExistsError):
        write(path, "second", overwrite=False)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("of_link", "of_rename"), [(errno.ENOSPC, None), (errno.ENOENT, None), (errno.EPERM, errno.EIO)]
)
def test_a_link_or_rename_that_fails_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_link: int, of_rename: int | None
) -> None:
    monkeypatch.setattr(os, "link", failing(of_link))
    if of_rename:
        monkeypatch.setattr(os, "replace", failing(of_rename))
    with pytest.raises(OSError, match=re.escape(os.strerror(of_rename or of_link))):
        write(tmp_path / "claim", "complete", overwrite=False)
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


def leftovers(runs: Path, temporary: Path, owner: str) -> tuple[Path, Path]:
    return half_written(runs, owner), compiler_cache(temporary, owner)


@pytest.mark.parametrize("host", [HERE, "node17.cluster.example.org", "a.parquet.b"])
def test_files_of_dead_processes_are_deleted(
    runs: Path, temporary: Path, dead: int, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    leftovers(runs, temporary, f"{host}-{dead}")
    traces = runs.parent / "traces"
    for name in ("run.json.gz", "run.pickle", "ceilings.json"):
        monkeypatch.setattr(files, "owner", lambda: f"{host}-{dead}")
        gone = files.partial_path(traces / name)
        gone.parent.mkdir(exist_ok=True)
        gone.touch()
    files.remove_abandoned(runs, traces, runs / "missing")
    assert [*runs.iterdir(), *traces.iterdir(), *temporary.iterdir()] == []


def test_files_of_processes_that_may_live_are_kept(
    runs: Path, temporary: Path, living: int, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a shared file system a process of another host may be alive where it runs."""
    owners = [f"{HERE}-{process}" for process in (living, os.getpid(), 1)]
    owners += [f"{host}-{dead}" for host in ("elsewhere", f"{HERE}-2", f"2-{HERE}", "")]
    kept = [path for owner in owners for path in leftovers(runs, temporary, owner)]
    files.remove_abandoned(runs)
    assert all(path.exists() for path in kept)

    def not_allowed(process: int, signal: int) -> NoReturn:
        raise PermissionError(1, "Operation not permitted")

    kept += leftovers(runs, temporary, f"{HERE}-{dead}")
    monkeypatch.setattr(os, "kill", not_allowed)  # as to a process of another user
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


def test_a_temporary_folder_is_deleted_after_its_block(temporary: Path) -> None:
    with files.temporary_folder() as folder:
        assert folder.parent == temporary
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "file").touch()
        files.remove_abandoned(temporary)
        assert (folder / "deep" / "file").exists()
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
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", DIES_WITHIN, runs], cwd=ROOT, env=environment)
    assert done.returncode == -9
    assert [path.suffix for path in runs.iterdir()] == [".partial"]
    assert [path.name.startswith("modescope-") for path in temporary.iterdir()] == [True]
    files.remove_abandoned(runs)
    assert list(runs.iterdir()) == list(temporary.iterdir()) == []

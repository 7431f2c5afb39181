"""Leftovers of killed processes are deleted; files in use or of other programs are kept."""

from __future__ import annotations

import os
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

from modescope.bench.records import leftovers, parquet
from tests.helpers.made_up_records import record
from tests.helpers.paths import ROOT

HERE = socket.gethostname()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of these tests, so that they clear no other one."""
    folder = tmp_path / "temporary"
    folder.mkdir()
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
    leftovers.clear(runs)
    assert not partial.exists()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["run.json.gz", "run.pickle", "ceilings.json", "run.parquet"])
def test_every_kind_of_leftover_is_deleted_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead: int, living: int, name: str
) -> None:
    folders = [tmp_path / "rows", tmp_path / "traces"]
    partials: dict[int, list[Path]] = {}
    for process in (dead, living):
        monkeypatch.setattr(leftovers, "owner", lambda process=process: f"{HERE}-{process}")
        partials[process] = [leftovers.partial(folder / name) for folder in folders]
    for path in (*partials[dead], *partials[living]):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    leftovers.clear(*folders)
    assert not any(path.exists() for path in partials[dead])
    assert all(path.exists() for path in partials[living])


def test_files_of_living_processes_are_kept(runs: Path, temporary: Path, living: int) -> None:
    owners = [f"{HERE}-{process}" for process in (living, os.getpid(), 1)]
    kept = [half_written(runs, owner) for owner in owners]
    kept += [compiler_cache(temporary, owner) for owner in owners]
    leftovers.clear(runs)
    assert all(path.exists() for path in kept)


def test_a_process_of_another_user_counts_as_alive(
    runs: Path, temporary: Path, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_allowed(process: int, signal: int) -> NoReturn:
        raise PermissionError(1, "Operation not permitted")

    kept = [half_written(runs, f"{HERE}-{dead}"), compiler_cache(temporary, f"{HERE}-{dead}")]
    monkeypatch.setattr(os, "kill", not_allowed)
    leftovers.clear(runs)
    assert all(path.exists() for path in kept)


@pytest.mark.parametrize("host", ["elsewhere", f"{HERE}-2", f"2-{HERE}", f"{HERE}.org", ""])
def test_files_of_other_hosts_are_kept(runs: Path, temporary: Path, dead: int, host: str) -> None:
    """On a shared file system that process may be alive where it runs."""
    kept = [half_written(runs, f"{host}-{dead}"), compiler_cache(temporary, f"{host}-{dead}")]
    leftovers.clear(runs)
    assert all(path.exists() for path in kept)


def test_an_old_file_of_another_host_is_deleted_by_the_clock_of_the_file_system(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = half_written(runs, "elsewhere-1"), half_written(runs, "elsewhere-2")
    monkeypatch.setattr(time, "time", lambda: 4e9)  # this machine's clock is decades ahead
    modified = new.stat().st_mtime - leftovers.OLD_S - 1
    os.utime(old, (modified, modified))
    leftovers.clear(runs)
    assert list(runs.iterdir()) == [new]


@pytest.mark.parametrize("host", ["node-17", "node17.cluster.example.org", "a.parquet.b"])
def test_host_names_may_have_any_characters(
    runs: Path, temporary: Path, dead: int, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    gone = [half_written(runs, f"{host}-{dead}"), compiler_cache(temporary, f"{host}-{dead}")]
    leftovers.clear(runs)
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
    leftovers.clear(runs)
    assert all(path.exists() for path in kept)


def test_a_missing_study_has_no_leftovers(tmp_path: Path) -> None:
    leftovers.clear(tmp_path / "no" / "rows")
    assert not (tmp_path / "no").exists()


def test_a_scratch_folder_is_deleted_after_its_block(temporary: Path) -> None:
    with leftovers.scratch() as folder:
        assert folder.parent == temporary
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "file").touch()
        leftovers.clear(temporary)
        assert (folder / "deep" / "file").exists()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_scratch_folder_is_deleted_after_an_exception(
    temporary: Path, error: type[BaseException]
) -> None:
    def fail() -> None:
        with leftovers.scratch():
            raise error

    with pytest.raises(error):
        fail()
    assert list(temporary.iterdir()) == []


DIES_WITHIN = """
import os, sys
from pathlib import Path
import pyarrow.parquet as pq
from modescope.bench.records import leftovers, parquet as store
from tests.helpers.made_up_records import record

def die(*arguments, **options):
    with leftovers.scratch():
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
    leftovers.clear(runs)
    assert list(runs.iterdir()) == list(temporary.iterdir()) == []


def test_a_file_being_written_is_kept(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another sweep may start in the same study."""
    write_table = pq.ParquetWriter.write_table

    def meanwhile(*arguments: Any, **options: Any) -> None:
        write_table(*arguments, **options)
        leftovers.clear(runs)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", meanwhile)
    path = parquet.write(record(), runs)
    assert list(runs.iterdir()) == [path]

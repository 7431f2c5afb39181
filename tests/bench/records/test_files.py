"""Files are complete under their name or absent; those of killed processes are deleted."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from modescope.bench.records import files, parquet
from modescope.bench.records.files import atomic_write
from modescope.bench.records.results import row
from tests.helpers.made_up_records import record
from tests.helpers.paths import ROOT


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


def leftovers(runs: Path, temporary: Path, owner: str) -> tuple[Path, Path]:
    """A half-written file and a compiler's cache."""
    partial = runs / f".0a1b2c3d.20260301T120000.000001-abc123.parquet.{owner}.partial"
    partial.write_bytes(b"PAR1")
    kernel = temporary / f"modescope-{owner}-x7_k2p9q" / "triton" / "kernel.so"
    kernel.parent.mkdir(parents=True)
    kernel.touch()
    return partial, kernel


def test_only_files_of_dead_processes_of_this_host_are_deleted(
    runs: Path, temporary: Path, living: int, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a shared file system a process of another host may be alive where it runs."""
    monkeypatch.setattr(socket, "gethostname", lambda: "a.parquet.b")
    gone = leftovers(runs, temporary, f"a.parquet.b-{dead}")
    owners = [f"a.parquet.b-{process}" for process in (living, os.getpid(), 1)]
    owners += [f"{host}-{dead}" for host in ("elsewhere", "axparquet.b", "2-a.parquet.b", "")]
    kept = [path for owner in owners for path in leftovers(runs, temporary, owner)]
    others = [
        runs / ".hidden.partial",
        runs / f"a.parquet.b-{dead}.partial",
        temporary / "modescope-notes.txt",
        temporary / "modescope-a.parquet.b-99999999999999999999-abc",
        temporary / f"another-a.parquet.b-{dead}-abc",
    ]
    for path in others:
        path.touch()
    kept += [*others, parquet.write(row(record()), runs)]
    files.remove_abandoned(runs, runs / "missing")
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in kept)


def test_files_of_another_users_process_are_kept(
    runs: Path, temporary: Path, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_allowed(process: int, signal: int) -> NoReturn:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", not_allowed)
    kept = leftovers(runs, temporary, f"{socket.gethostname()}-{dead}")
    files.remove_abandoned(runs)
    assert all(path.exists() for path in kept)


DIES_WITHIN = """
import os, sys
from pathlib import Path
from modescope.bench.records import files

with files.temporary_folder(), files.atomic_write(Path(sys.argv[1]) / "run.parquet") as partial:
    partial.touch()
    os.kill(os.getpid(), 9)
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

"""What `run.py` makes of a process that is killed while it fills a cache, and of a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.commands import TINY, Row, finish, last_of_each, rows, started
from tests.helpers.processes import alive, soon

pytestmark = pytest.mark.full

WORDS = last_of_each(*TINY, "mode=compile", "compile_cache=warm", "starts=1", "threads=1")

NO_TESTS = {"TORCHINDUCTOR_VEC_ISA_OK": "1"}
"""The compiler compiles no tests of instructions."""


def only_row(results: Path, status: str) -> Row:
    [row] = rows(results)
    assert (row["status"], row["starts_s"], row["fill_s"]) == (status, None, None)
    assert len(row["reason"].splitlines()) == 1
    return row


def fills(process: int) -> bool:
    try:
        return b"start.py" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for TMPDIR. Its path is short, as sockets in it may have 107 characters."""
    return tmp_path_factory.mktemp("t")


def test_a_cache_whose_process_is_killed_is_not_believed(
    results: Path, tmp_path: Path, temporary: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    variables = {"TMPDIR": str(temporary), "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    command = started(results, WORDS, **variables, **NO_TESTS)
    assert soon(lambda: any(temporary.glob("*/filled/*")), 120)  # it has begun to fill
    [process] = filter(fills, alive(command.sign))
    os.kill(process, signal.SIGKILL)
    answer = finish(command)
    assert answer.status == 1
    assert "by SIGKILL" in only_row(results, "crashed")["reason"]
    assert not any(temporary.glob("modescope-*"))
    assert not any(cache.iterdir())  # the user's, which no rung uses


@pytest.fixture
def small_disk(temporary: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(temporary)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield temporary
    subprocess.run(["umount", str(temporary)], check=True)


def test_a_full_disk_is_one_line(results: Path, small_disk: Path) -> None:
    command = started(results, WORDS, TMPDIR=str(small_disk), **NO_TESTS)
    answer = finish(command, within_s=200)
    assert answer.status == 1
    assert "No space left on device" in only_row(results, "failed")["reason"]
    assert not any(small_disk.iterdir())

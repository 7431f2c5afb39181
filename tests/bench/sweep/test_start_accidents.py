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


def test_a_cache_whose_process_is_killed_is_not_believed(results: Path, tmp_path: Path) -> None:
    temporary, cache = tmp_path / "temporary", tmp_path / "cache"
    temporary.mkdir()
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
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_line(results: Path, small_disk: Path) -> None:
    command = started(results, WORDS, TMPDIR=str(small_disk), **NO_TESTS)
    answer = finish(command, within_s=200)
    assert answer.status == 1
    assert "No space left on device" in only_row(results, "failed")["reason"]
    assert not any(small_disk.iterdir())

"""Claims of many processes on one folder."""

from __future__ import annotations

import errno
import multiprocessing
import os
import socket
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.cluster import claims, generations
from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.folder import Done, Folder, Sweep
from modescope.bench.records import leftovers
from tests.helpers.fake_scheduler import FakeScheduler
from tests.helpers.stub_work import sweep_of

TASKS, PROCESSES = 60, 6


@pytest.fixture
def jobs(tmp_path: Path) -> Folder:
    requests: list[dict[str, Any]] = [{}] * TASKS
    return joined(tmp_path, sweep_of(tmp_path, requests))


def joined(study: Path, sweep: Sweep) -> Folder:
    return generations.joined(study / "jobs", "0" * 16, sweep, FakeScheduler()).folder


def claim(task: str, number: int = 0, worker: str = "w") -> Claim:
    return Claim(task, number, f"{worker}-{task}", worker, 0, "", None, None)


def claim_all(path: Path, worker: str, start: Any, won: Any) -> None:
    jobs = Folder(path)
    start.wait()
    names = jobs.sweep().names
    won.put((worker, [n for n in names if claims.publish(jobs, claim(n, worker=worker))]))


def test_of_many_processes_one_gets_each_task(jobs: Folder) -> None:
    context = multiprocessing.get_context("fork")
    start, won = context.Event(), context.SimpleQueue()
    processes = [
        context.Process(target=claim_all, args=(jobs.path, f"w{n}", start, won))
        for n in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    start.set()
    lists = dict(won.get() for _ in processes)
    for process in processes:
        process.join()
    counts = Counter(task for tasks in lists.values() for task in tasks)
    assert counts == dict.fromkeys(jobs.sweep().names, 1)
    assert not list(jobs.part("claims").glob(".*"))
    for worker, tasks in lists.items():
        assert {claims.read(jobs, task, 0).worker for task in tasks} <= {worker}


def test_a_link_that_nfs_repeats_counts_as_made(
    jobs: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)  # the answer to the first one was lost

    monkeypatch.setattr(os, "link", twice)
    assert claims.publish(jobs, claim("0-0"))
    assert not claims.publish(jobs, claim("0-0", worker="other"))
    assert claims.read(jobs, "0-0", 0).worker == "w"


def test_without_links_one_thread_gets_the_task(
    jobs: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    won: list[str] = []
    barrier = threading.Barrier(8)

    def attempt(worker: str) -> None:
        barrier.wait()
        won.extend([worker] if claims.publish(jobs, claim("0-0", worker=worker)) else [])

    threads = [threading.Thread(target=attempt, args=(f"w{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert claims.read(jobs, "0-0", 0).worker == won[0]


def test_a_released_task_can_be_claimed_once_more(jobs: Folder) -> None:
    first = claim("0-0")
    claims.publish(jobs, first)
    assert "0-0" not in claims.free(jobs, ["0-0"])
    claims.release(jobs, first)
    claims.release(jobs, first)  # by a second driver
    assert claims.free(jobs, ["0-0"]) == {"0-0": 1}
    assert claims.open_claims(jobs) == []
    assert claims.publish(jobs, claim("0-0", 1, "other"))
    claims.release(jobs, first)  # by a driver that was late
    assert claims.open_claims(jobs) == [("0-0", 1)]
    assert claims.free(jobs, ["0-0"]) == {}


def test_a_task_that_is_done_is_not_free(jobs: Folder) -> None:
    jobs.mark_done("0-0", Done("first"))
    jobs.mark_done("0-0", Done("second"))
    assert jobs.done("0-0") == Done("first")
    assert claims.free(jobs, ["0-0", "1-0"]) == {"1-0": 0}


def test_a_removed_folder_is_not_made_again(jobs: Folder) -> None:
    for path in sorted(jobs.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    jobs.path.rmdir()
    with pytest.raises(FileNotFoundError):
        jobs.mark_done("0-0", Done("x"))
    assert not jobs.path.exists()


def test_half_written_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, [{}])
    first = joined(tmp_path, sweep)
    half = first.part("claims") / f".1a2b3c4d.0-0.0.json.{socket.gethostname()}-{dead()}.partial"
    half.touch()
    ours = leftovers.partial(first.part("done") / "0-0.json")
    ours.touch()
    assert joined(tmp_path, sweep) == first
    assert not half.exists()
    assert ours.exists()


def dead() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_folder_that_cannot_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, *arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        joined(tmp_path, sweep_of(tmp_path, [{}]))
    assert list((tmp_path / "jobs").iterdir()) == []

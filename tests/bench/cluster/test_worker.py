"""A worker alone: its time, its name, and what it does on a machine that fails at every task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.cluster import claims, folder, generations, locks, members, worker
from modescope.bench.cluster.broken import BrokenMachine
from modescope.bench.cluster.deadline import RESERVE_S, Deadline
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import Member, Process
from modescope.bench.cluster.work import work_of
from modescope.bench.cluster.worker import Worker
from tests.helpers.fake_scheduler import FakeScheduler
from tests.helpers.paths import ROOT
from tests.helpers.processes import soon
from tests.helpers.stub_work import rows, sweep_of, texts

Requests = list[dict[str, Any]]

FAILS = {"status": "failed", "sentinel": False}

IN_A_JOB = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1"}


@pytest.fixture(autouse=True)
def _outside_of_schedulers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith(("SLURM_", "MODESCOPE_"))]:
        monkeypatch.delenv(name)


def joined(study: Path, requests: Requests) -> Folder:
    sweep = sweep_of(study, requests, order="given")
    name = folder.sweep_id(sweep, "fake")
    return generations.joined(study / "jobs", name, sweep, FakeScheduler()).folder


def worker_of(jobs: Folder, seconds: float | None = None) -> Worker:
    """A worker in this process, which has so much time."""
    deadline = Deadline(None if seconds is None else time.time() + seconds)
    member, work = members.this(), work_of(jobs.sweep())
    members.write(jobs, member)
    work.prepare(member)
    return Worker(jobs, jobs.sweep(), member, work, deadline)


def statuses(study: Path) -> list[str]:
    return [text.split()[1] for text in texts(study)]


def elsewhere(jobs: Folder, name: str, sentinel: bool) -> None:
    process = Process(name, "other", 1, "1")
    members.write(jobs, Member(name, process, sentinel=sentinel))


# A machine that fails at every task


def test_a_machine_that_fails_at_everything_gets_no_more_than_three_tasks(study: Path) -> None:
    jobs = joined(study, [FAILS] * 9)
    with pytest.raises(BrokenMachine, match="the sentinel and the first 3 cases crashed or failed"):
        worker_of(jobs).run()
    assert statuses(study) == ["failed"] * 3
    assert claims.open_claims(jobs) == []
    assert len(claims.free(jobs, jobs.sweep().names)) == 6


def test_tasks_that_fail_on_a_healthy_machine_stop_no_worker(study: Path) -> None:
    worker_of(joined(study, [{"status": "failed"}] * 9)).run()
    assert statuses(study) == ["failed"] * 9


def test_a_sentinel_that_fails_stops_no_worker_that_measures_its_tasks(study: Path) -> None:
    worker_of(joined(study, [FAILS, FAILS, {}, FAILS, FAILS, FAILS, FAILS])).run()
    assert statuses(study).count("failed") == 6


def test_a_sentinel_that_fails_elsewhere_too_is_the_case_and_not_the_machine(study: Path) -> None:
    jobs = joined(study, [FAILS] * 9)
    elsewhere(jobs, "far", sentinel=False)
    worker_of(jobs).run()
    assert len(rows(study)) == 9


def test_a_sentinel_that_a_third_machine_measures_is_not_the_case(study: Path) -> None:
    jobs = joined(study, [FAILS] * 9)
    elsewhere(jobs, "far", sentinel=False)
    elsewhere(jobs, "healthy", sentinel=True)
    with pytest.raises(BrokenMachine):
        worker_of(jobs).run()
    assert len(rows(study)) == 3


# Its time


def has_sentinel(study: Path) -> bool:
    return (study / "sentinels").exists()


@pytest.mark.parametrize(("seconds", "measured", "calibrated"), [(10, 2, True), (1.5, 2, False)])
def test_the_sentinel_is_left_out_where_a_task_needs_the_time(
    seconds: float, measured: int, calibrated: bool, study: Path
) -> None:
    worker_of(joined(study, [{}] * 2), seconds).run()
    assert len(rows(study)) == measured
    assert has_sentinel(study) == calibrated


def test_the_sentinel_is_left_out_where_others_hold_its_locks(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "SENTINEL_WAIT_S", 0.1)
    jobs = joined(study, [{"gpu": "a"}])
    alone = worker_of(jobs)
    held = locks.attempt(work_of(jobs.sweep()).locks("0-0"))
    assert held is not None
    with held:
        assert alone._calibrate() is None
    assert not has_sentinel(study)
    alone.run()
    assert has_sentinel(study)


def test_its_time_ends_as_its_user_or_slurm_says_whichever_is_sooner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "time", lambda: now)
    assert Deadline.of(None).ends is None
    assert Deadline.of(10).ends == now + 600 - RESERVE_S
    assert Deadline.of(10, 120).ends == now + 480 - RESERVE_S
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(now) + 300))
    assert Deadline.of(10).ends == now + 300 - RESERVE_S
    assert Deadline.of(None).ends == now + 300 - RESERVE_S
    assert Deadline.of(2).ends == now + 120 - RESERVE_S


# Its name


def test_workers_by_hand_within_one_job_of_slurm_are_told_apart_and_are_no_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in IN_A_JOB.items():
        monkeypatch.setenv(name, value)
    both = [members.this() for _ in range(2)]
    assert both[0].name != both[1].name
    assert {(member.scheduler, member.job) for member in both} == {(None, None)}


def test_a_worker_that_was_submitted_is_its_job_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**IN_A_JOB, members.SUBMITTED: str(time.time() - 5)}.items():
        monkeypatch.setenv(name, value)
    member = members.this()
    assert (member.name, member.scheduler, member.job) == ("slurm-7_1", "slurm", "7_1")
    assert member.queue_wait_s is not None
    assert member.queue_wait_s >= 5
    monkeypatch.setenv("SLURM_PROCID", "2")
    assert members.this().name == "slurm-7_1.2"


def test_after_a_restart_its_time_in_the_queue_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variables = {**IN_A_JOB, members.SUBMITTED: "1000.0", "SLURM_RESTART_COUNT": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    member = members.this()
    assert (member.restart, member.queue_wait_s) == (1, None)


def test_ctrl_c_ends_a_worker_by_hand_without_a_traceback(study: Path) -> None:
    jobs = joined(study, [{"seconds": 60}])
    process = subprocess.Popen(
        [sys.executable, "-m", "modescope.bench.worker", str(jobs.path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert soon(lambda: claims.open_claims(jobs), within_s=60)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "")
    (name,) = jobs.names("workers")
    assert members.one(jobs, name).stopped

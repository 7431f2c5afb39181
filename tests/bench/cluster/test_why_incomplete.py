"""What a command says if its workers end while tasks are left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.bench.cluster import folder, generations, submissions
from modescope.bench.cluster.driver import Driver
from modescope.bench.cluster.folder import Folder
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep.sweep import Incomplete
from tests.helpers.fake_scheduler import FakeScheduler
from tests.helpers.stub_work import sweep_of

pytestmark = pytest.mark.usefixtures("quick")


def joined(study: Path, requests: list[dict[str, Any]], engine: FakeScheduler) -> Folder:
    sweep = sweep_of(study, requests, order="given")
    name = folder.sweep_id(sweep, "fake")
    return generations.joined(study / "jobs", name, sweep, engine).folder


def ended(jobs: Folder, engine: FakeScheduler) -> tuple[list[str], Incomplete]:
    """The run ids before the end."""
    found: list[str] = []
    with pytest.raises(Incomplete) as stop:
        found.extend(Driver(jobs, engine, 1).finished())
    return found, stop.value


def test_the_error_of_a_worker_that_could_not_begin_is_said(
    tmp_path: Path, engine: FakeScheduler
) -> None:
    jobs = joined(tmp_path, [{"error": "No module named 'transformers'"}], engine)
    _, why = ended(jobs, engine)
    assert str(why).startswith(
        "1 case was not measured: ModuleNotFoundError: No module named 'transformers'; output is in"
    )


def test_that_no_time_was_left_is_said(
    tmp_path: Path, engine: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1")
    _, why = ended(joined(tmp_path, [{}], engine), engine)
    assert str(why).startswith("1 case was not measured: no time left for another case; ")


def test_of_a_signal_the_reason_is_the_scheduler_s(tmp_path: Path, engine: FakeScheduler) -> None:
    engine.reason = "Fake: TIMEOUT"
    _, why = ended(joined(tmp_path, [{"kill": "SIGTERM"}], engine), engine)
    assert str(why).startswith("1 case was not measured: Fake: TIMEOUT; ")


@pytest.mark.parametrize("done", [0, 1])
def test_a_refused_submission_ends_the_sweep_and_keeps_what_was_found(
    tmp_path: Path, engine: FakeScheduler, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    submit = engine.submit

    def refused(jobs: Folder, count: int) -> dict[str, Any]:
        if len(engine.submissions) == done:
            raise UsageError("sbatch refused the workers: no such partition")
        return submit(jobs, count)

    monkeypatch.setattr(engine, "submit", refused)
    requests: list[dict[str, Any]] = [{}, {"kill": "SIGTERM"}] if done else [{}]
    jobs = joined(tmp_path, requests, engine)
    found, why = ended(jobs, engine)
    assert str(why) == "sbatch refused the workers: no such partition"
    assert (len(found), why.refused) == (done, not done)
    # the corrected command need not wait for it
    assert submissions.Submissions(jobs).look() is False
    monkeypatch.setattr(engine, "submit", submit)
    again = joined(tmp_path, requests, engine)
    assert len(list(Driver(again, engine, 1).finished())) == 1 + done

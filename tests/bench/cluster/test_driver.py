"""A driver, its workers and what becomes of lost ones, with tasks that need no torch."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.cluster import (
    claims,
    folder,
    generations,
    members,
    states,
    submissions,
    work,
    worker,
    worker_process,
)
from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.deadline import Deadline
from modescope.bench.cluster.driver import Driver
from modescope.bench.cluster.engine import Engine
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.local_engine import Local, Slot
from modescope.bench.cluster.members import Member, Process
from modescope.bench.sweep.sweep import Incomplete
from tests.helpers.fake_scheduler import FakeScheduler
from tests.helpers.stub_work import rows, sweep_of, texts

pytestmark = pytest.mark.usefixtures("quick")

Requests = list[dict[str, Any]]


def joined(study: Path, requests: Requests, by: Engine | None = None, **changes: Any) -> Folder:
    """The generation that a command attaches to, or begins; by default no old job is known."""
    sweep = sweep_of(study, requests, **changes)
    name = folder.sweep_id(sweep, "fake")
    return generations.joined(study / "jobs", name, sweep, by or FakeScheduler()).folder


def await_(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


def statuses(study: Path) -> list[str]:
    return [text.split()[1] for text in texts(study)]


def test_every_task_is_measured_once_by_several_workers(study: Path, engine: FakeScheduler) -> None:
    jobs = joined(study, [{"seconds": 0.02}] * 30)
    found = list(Driver(jobs, engine, 3).finished())
    assert len(set(found)) == 30
    assert {path.stem for path in rows(study)} == set(found)
    assert engine.submissions == [3]
    assert len({text.split()[2] for text in texts(study)}) > 1
    assert {text.split()[0] for text in texts(study)} == set(jobs.sweep().names)


def test_no_more_workers_than_tasks(study: Path, engine: FakeScheduler) -> None:
    list(Driver(joined(study, [{}]), engine, 8).finished())
    assert engine.submissions == [1]


def order_of(jobs: Folder, worker_name: str) -> list[str]:
    sweep = jobs.sweep()
    member = Member(worker_name, Process.of(os.getpid()))
    made = worker.Worker(jobs, sweep, member, work.work_of(sweep), Deadline(None))
    return made._order


def test_the_order_of_workers_differs(study: Path) -> None:
    jobs = joined(study, [{}] * 12)
    first, second = order_of(jobs, "fake-1_0"), order_of(jobs, "fake-1_1")
    assert first == order_of(jobs, "fake-1_0")
    assert len({tuple(order) for order in (first, second, jobs.sweep().names)}) == 3
    assert sorted(first) == sorted(second) == sorted(jobs.sweep().names)


def test_order_given_is_kept(study: Path, engine: FakeScheduler) -> None:
    jobs = joined(study, [{}] * 12, order="given")
    list(Driver(jobs, engine, 1).finished())
    begun = sorted(float(text.split()[3]) for text in texts(study))
    by_task = {text.split()[0]: float(text.split()[3]) for text in texts(study)}
    assert [by_task[name] for name in jobs.sweep().names] == begun


def test_the_same_sweep_again_reuses_the_rows(
    study: Path, engine: FakeScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    first = set(Driver(joined(study, [{}] * 4), engine, 2).finished())
    assert set(Driver(joined(study, [{}] * 4), engine, 2).finished()) == first
    assert len(rows(study)) == 4
    assert "reusing 4 of 4 cases; resume=false measures them again" in capsys.readouterr().out


def test_a_killed_worker_becomes_a_row_with_the_reason_and_the_rest_is_measured(
    study: Path, engine: FakeScheduler
) -> None:
    jobs = joined(study, [{"kill": "SIGKILL"}, *[{"seconds": 0.01}] * 9])
    assert len(set(Driver(jobs, engine, 2).finished())) == 10
    (crashed,) = [text for text in texts(study) if "crashed" in text]
    assert crashed.startswith("0-0 crashed its worker on ")
    assert crashed.endswith("was lost: FAKE_NODE_FAIL")
    assert statuses(study).count("ok") == 9


def test_an_error_of_a_task_is_the_reason(study: Path, engine: FakeScheduler) -> None:
    list(Driver(joined(study, [{"raises": "no luck"}, {}]), engine, 1).finished())
    (crashed,) = [text for text in texts(study) if "crashed" in text]
    assert crashed.endswith("was lost: ValueError: no luck")


def test_a_task_whose_worker_was_ended_in_an_orderly_way_is_measured_again(
    study: Path, engine: FakeScheduler
) -> None:
    requests: Requests = [*[{"seconds": 0.01}] * 3, {"kill": "SIGTERM"}, {}]
    jobs = joined(study, requests, order="given")
    assert len(set(Driver(jobs, engine, 1).finished())) == 5
    assert statuses(study) == ["ok"] * 5
    assert engine.submissions == [1, 1]


def test_a_restarted_job_continues_its_task_under_the_same_run_id(
    study: Path, engine: FakeScheduler
) -> None:
    jobs = joined(study, [{"kill": "SIGKILL"}])
    first = engine.start(jobs, "7_0")
    first.wait()
    ((task, number),) = claims.open_claims(jobs)
    engine.processes["7_0"] = engine.start(jobs, "7_0", restart=1)
    (found,) = Driver(jobs, engine, 1).finished()
    assert found == claims.read(jobs, task, number).run_id
    assert statuses(study) == ["ok"]
    assert engine.submissions == []


def test_a_task_is_given_up_after_several_restarts(study: Path, engine: FakeScheduler) -> None:
    jobs = joined(study, [{"kill": "SIGKILL"}])
    engine.start(jobs, "7_0").wait()
    engine.processes["7_0"] = engine.start(jobs, "7_0", restart=4)
    list(Driver(jobs, engine, 1).finished())
    assert texts(study) == ["0-0 crashed its worker was restarted 3 times while it was measured"]


def test_a_scheduler_that_does_not_answer_loses_no_worker(
    study: Path, engine: FakeScheduler
) -> None:
    jobs = joined(study, [{"kill": "SIGKILL"}])
    follow = Driver(jobs, engine, 1)
    engine.reachable = False
    engine.start(jobs, "7_0").wait()
    follow._end_claims()
    assert claims.open_claims(jobs)
    engine.reachable = True
    follow._end_claims()
    assert claims.open_claims(jobs) == []


def test_a_broken_machine_is_said_and_other_workers_take_its_place(
    study: Path, engine: FakeScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = joined(study, [{"status": "failed", "sentinel": False}] * 5)
    assert len(list(Driver(jobs, engine, 1).finished())) == 5
    assert engine.submissions == [1, 1]
    said = "worker fake-1_0 ended: BrokenMachine: on "
    assert capsys.readouterr().out.count(said) == 1


def test_without_progress_the_sweep_ends_with_one_sentence(
    study: Path, engine: FakeScheduler
) -> None:
    jobs = joined(study, [{}] * 3)
    engine.start = lambda *arguments: _ended()  # type: ignore[method-assign]
    with pytest.raises(Incomplete) as stop:
        list(Driver(jobs, engine, 2).finished())
    assert str(stop.value).startswith("3 cases were not measured: FAKE_NODE_FAIL; output is in ")
    assert str(stop.value).endswith("the same command continues")
    assert not stop.value.refused
    assert engine.submissions == [2]


def _ended() -> Any:
    process = subprocess.Popen(["true"])
    process.wait()
    return process


def test_what_no_machine_can_measure_is_said_once(study: Path, engine: FakeScheduler) -> None:
    jobs = joined(study, [{"problem": "threads=9: too many"}] * 2)
    with pytest.raises(Incomplete, match=r"^threads=9: too many$") as stop:
        list(Driver(jobs, engine, 1).finished())
    assert stop.value.refused
    assert engine.submissions == [1]


def test_the_rest_is_measured_beside_what_no_machine_can(
    study: Path, engine: FakeScheduler
) -> None:
    jobs = joined(study, [{"problem": "no such device"}, {}])
    with pytest.raises(Incomplete, match=r"^no such device$") as stop:
        list(Driver(jobs, engine, 1).finished())
    assert len(rows(study)) == 1
    assert not stop.value.refused


def test_a_problem_of_a_restarted_worker_is_forgotten(study: Path, engine: FakeScheduler) -> None:
    jobs = joined(study, [{}])
    for name in ("fake-1_0", "other"):
        jobs.create("problems", f"0-0.{name}", {"text": "no such device"})
    assert len(list(Driver(jobs, engine, 1).finished())) == 1
    assert jobs.problems() == {"0-0": {"other": "no such device"}}


def test_what_one_sick_node_cannot_measure_is_left_to_those_that_are_submitted_next(
    study: Path, engine: FakeScheduler
) -> None:
    requests: Requests = [{"sick": "fake-1_0", "seconds": 0.01}] * 3
    requests.append({"sick": "fake-1_0", "kill": "SIGTERM"})  # ends the healthy worker
    requests.append({"sick": "fake-1_0"})
    jobs = joined(study, requests, order="given")
    assert len(set(Driver(jobs, engine, 2).finished())) == 5
    assert engine.submissions == [2, 2]
    assert statuses(study) == ["ok"] * 5


def test_cancelled_jobs_are_not_replaced_but_the_same_command_submits_again(
    study: Path, engine: FakeScheduler
) -> None:
    requests: Requests = [{"seconds": 0.01}, {"kill": "SIGTERM"}]
    jobs = joined(study, requests, order="given")
    engine.reason = "FAKE: CANCELLED"
    with pytest.raises(Incomplete, match=r"^1 case was not measured: FAKE: CANCELLED"):
        list(Driver(jobs, engine, 1).finished())
    assert engine.submissions == [1]
    again = joined(study, requests, engine, order="given")
    assert len(list(Driver(again, engine, 1).finished())) == 2
    assert engine.submissions == [1, 1]


def test_jobs_that_are_cancelled_after_a_second_command_attached_are_not_replaced(
    study: Path, engine: FakeScheduler
) -> None:
    requests: Requests = [{"seconds": 0.01}, {"seconds": 30}]
    jobs = joined(study, requests, order="given")
    interrupted(Driver(jobs, engine, 1), lambda: rows(study))
    engine.reason = "FAKE: CANCELLED"
    follow = Driver(joined(study, requests, engine, order="given"), engine, 1).finished()
    assert next(follow)
    process = engine.processes["1_0"]
    threading.Timer(0.3, process.terminate).start()
    with pytest.raises(Incomplete, match=r"^1 case was not measured: FAKE: CANCELLED"):
        list(follow)
    assert engine.submissions == [1]


def interrupted(follow: Driver, after: Callable[[], object]) -> None:
    """Ctrl-C once the condition holds."""

    def press() -> None:
        await_(after)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        list(follow.finished())
    thread.join()


def test_ctrl_c_detaches_and_the_same_command_attaches(
    study: Path, engine: FakeScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    requests: Requests = [{"seconds": 0.3}] * 4
    jobs = joined(study, requests)
    interrupted(Driver(jobs, engine, 1), lambda: rows(study))
    assert (
        "fakecancel 1_0 ends them, and the same command attaches again" in capsys.readouterr().out
    )
    assert joined(study, requests, engine) == jobs
    assert len(list(Driver(jobs, engine, 1).finished())) == 4
    assert engine.submissions == [1]
    assert len(rows(study)) == 4


def test_jobs_in_the_queue_are_waited_for_and_taken_off_it_at_the_end(
    study: Path, engine: FakeScheduler
) -> None:
    jobs = joined(study, [{}] * 2)
    engine.held = True
    interrupted(Driver(jobs, engine, 2), lambda: submissions.jobs(jobs))
    engine.processes["1_1"] = engine.start(jobs, "1_1")
    assert len(list(Driver(jobs, engine, 2).finished())) == 2
    assert engine.submissions == [2]
    assert engine.ended == ["1_0"]


def test_why_workers_wait_is_said_once_where_it_is_unusual(
    study: Path, engine: FakeScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = joined(study, [{}] * 2)
    engine.held, engine.waits_for = True, "Fake: PartitionTimeLimit"
    follow = Driver(jobs, engine, 2)
    polls = itertools.count()
    engine.pause_s = 0.0
    states = engine.states
    engine.states = lambda jobs: (next(polls), states(jobs))[1]  # type: ignore[method-assign]
    interrupted(follow, lambda: next(polls) > 20)
    sentence = (
        "2 workers wait in the queue, Fake: PartitionTimeLimit; fakecancel 1_0 1_1 ends them\n"
    )
    assert capsys.readouterr().out.count(sentence) == 1


def test_ctrl_c_while_workers_are_submitted_leaves_none_unknown(
    study: Path, engine: FakeScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = joined(study, [{}])
    engine.held = True
    submit = engine.submit

    def interrupted_submit(folder: Folder, count: int) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGINT)
        return submit(folder, count)

    engine.submit = interrupted_submit  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        list(Driver(jobs, engine, 1).finished())
    assert list(submissions.jobs(jobs)) == ["1_0"]
    assert "fakecancel 1_0 ends them" in capsys.readouterr().out


def test_of_two_drivers_one_submits_and_both_see_all(study: Path, engine: FakeScheduler) -> None:
    requests: Requests = [{"seconds": 0.05}] * 12
    found: list[list[str]] = []

    def drive() -> None:
        found.append(list(Driver(joined(study, requests, engine), engine, 2).finished()))

    threads = [threading.Thread(target=drive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(set(each)) for each in found] == [12, 12]
    assert set(found[0]) == set(found[1])
    assert len(rows(study)) == 12
    assert engine.submissions == [2]


def claimed_by(jobs: Folder, member: Member) -> Claim:
    members.write(jobs, member)
    claim = Claim("0-0", 0, "reserved", member.name, member.restart, "", None, "0-0")
    claims.publish(jobs, claim)
    return claim


def elsewhere() -> Member:
    return Member("far-1", Process("far", "other", 1, "1"))


def test_a_silent_worker_of_another_machine_is_lost_by_the_clock_of_the_folder(
    study: Path, engine: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = joined(study, [{}])
    claimed_by(jobs, elsewhere())
    beat = jobs.part("workers") / "far-1.beat"
    members.beat(beat)
    follow = Driver(jobs, engine, 1)
    monkeypatch.setattr(time, "time", lambda: 4e9)  # this machine's clock is decades ahead
    follow._end_claims()
    assert claims.open_claims(jobs)
    os.utime(beat, (beat.stat().st_atime, beat.stat().st_mtime - members.SILENT_S - 1))
    follow._end_claims()
    assert claims.open_claims(jobs) == []
    assert texts(study) == [
        "0-0 crashed its worker on far was lost: no sign of life from far for 300 s"
    ]


def test_asking_for_signs_of_life_leaves_no_file(study: Path, engine: FakeScheduler) -> None:
    jobs = joined(study, [{}])
    claimed_by(jobs, elsewhere())
    members.is_silent(jobs, elsewhere())
    assert not list(jobs.part("workers").glob(".*"))


def test_a_process_that_was_replaced_does_not_speak_for_the_restarted_job(study: Path) -> None:
    jobs = joined(study, [{}])
    first = Member("spool-1", Process.of(os.getpid()), "spool", "1")
    second = Member("spool-1", Process("far", "other", 1, "1"), "spool", "1", restart=1)
    with members.Heartbeat(jobs, first):
        members.write(jobs, second)
    assert members.one(jobs, "spool-1") == second


def test_a_second_signal_does_not_stop_a_worker_from_saying_how_it_ended() -> None:
    before = signal.signal(signal.SIGTERM, worker_process._end)
    try:
        with pytest.raises(worker_process.EndedBySignal):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_workers_of_this_machine_that_never_started_elsewhere_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = {"x-0": asdict(Process("far", "other", 1, "1"))}
    engine = local(1)
    assert engine.states(jobs)["x-0"].kind == members.RUNNING
    monkeypatch.setattr(members, "SILENT_S", -1.0)
    assert engine.states(jobs)["x-0"].kind == members.GONE


def test_of_a_worker_on_another_machine_its_signs_of_life_count(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = joined(study, [{}])
    one = local(1)
    member = replace(elsewhere(), scheduler="local", job="x-0")
    members.write(jobs, member)
    gone = members.State(members.GONE, "it has not started on another machine")
    assert states.of_engine(jobs, one, member, gone).kind == members.RUNNING
    monkeypatch.setattr(members, "SILENT_S", -1.0)
    assert states.of_engine(jobs, one, member, members.State(members.RUNNING)).kind == members.GONE


def test_a_row_that_was_written_before_its_worker_died_is_kept(
    study: Path, engine: FakeScheduler
) -> None:
    jobs = joined(study, [{}])
    process = engine.start(jobs, "7_0")
    process.wait()
    (run_id,) = (path.stem for path in rows(study))
    (jobs.part("done") / "0-0.json").unlink()
    engine.processes["7_0"] = process
    assert list(Driver(jobs, engine, 1).finished()) == [run_id]
    assert statuses(study) == ["ok"]


def test_a_zombie_and_the_driver_write_one_row(study: Path, engine: FakeScheduler) -> None:
    jobs = joined(study, [{"seconds": 1.0}])
    process = engine.start(jobs, "7_0")
    await_(lambda: claims.open_claims(jobs))
    follow = Driver(jobs, engine, 1)  # does not know the job: lost
    assert len(list(follow.finished())) == 1
    assert process.wait() == 0
    assert statuses(study) == ["crashed"]


def test_a_worker_that_was_taken_for_lost_begins_no_further_task(
    study: Path, engine: FakeScheduler
) -> None:
    jobs = joined(study, [{"seconds": 0.5}] * 8)
    process = engine.start(jobs, "7_0")
    await_(lambda: claims.open_claims(jobs))
    list(Driver(jobs, engine, 1).finished())  # does not know the job: lost
    assert process.wait() == 0
    assert statuses(study).count("crashed") == 1


# Workers of this machine


def local(count: int) -> Local:
    return Local([Slot(f"GPU-{number}", (0,)) for number in range(count)])


def test_no_two_tasks_are_on_one_gpu_at_once(study: Path) -> None:
    requests = [{"gpu": f"g{number % 2}", "seconds": 0.02} for number in range(16)]
    assert len(list(Driver(joined(study, requests), local(4), 4).finished())) == 16
    times: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    for text in texts(study):
        task, _, _, *both = text.split()
        times[int(task.partition("-")[0]) % 2].append((float(both[0]), float(both[1])))
    for of_gpu in times.values():
        for before, after in itertools.pairwise(sorted(of_gpu)):
            assert before[1] <= after[0]


def test_ctrl_c_ends_workers_of_this_machine_and_their_tasks_are_measured_next_time(
    study: Path,
) -> None:
    requests: Requests = [{"seconds": 0.5}] * 4
    engine = local(2)
    jobs = joined(study, requests)
    interrupted(Driver(jobs, engine, 2), lambda: rows(study))
    assert all(child.poll() is not None for child in engine._children.values())
    assert claims.open_claims(jobs) == []
    again = joined(study, requests, engine)
    assert len(list(Driver(again, local(2), 2).finished())) == 4
    assert statuses(study) == ["ok"] * 4


def test_a_killed_worker_of_this_machine_is_a_row(study: Path) -> None:
    jobs = joined(study, [{"kill": "SIGKILL"}, {}])
    list(Driver(jobs, local(1), 1).finished())
    assert sorted(statuses(study)) == ["crashed", "ok"]
    (crashed,) = [text for text in texts(study) if "crashed" in text]
    assert crashed.endswith("was lost: its process ended by SIGKILL")

"""When the same command continues a generation of a sweep, and when it begins the next one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.cluster import claims, folder, generations, launch, members, submissions
from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.driver import Driver
from modescope.bench.cluster.folder import Done, Folder
from modescope.bench.cluster.generations import Joined
from modescope.bench.cluster.members import Member, Process
from modescope.bench.sweep.sweep import Incomplete
from tests.helpers.fake_scheduler import FakeScheduler
from tests.helpers.stub_work import rows, sweep_of, texts


def joined(study: Path, engine: FakeScheduler, tasks: int = 1) -> Joined:
    """As the same command does; the tasks take no time."""
    sweep = sweep_of(study, [{}] * tasks)
    name = folder.sweep_id(sweep, "fake")
    return generations.joined(study / "jobs", name, sweep, engine)


def number(jobs: Folder) -> int:
    return int(jobs.path.name.rpartition("-")[2])


def claimed(jobs: Folder, task: str = "0-0", **changes: Any) -> Claim:
    """The claim of a job that the scheduler does not know."""
    member = Member("fake-9_0", Process("far", "other", 1, "1"), "fake", "9_0", **changes)
    members.write(jobs, member)
    claim = Claim(task, 0, f"reserved-{task}", member.name, 0, "", None, task)
    claims.publish(jobs, claim)
    return claim


def test_a_finished_sweep_gets_a_new_generation(study: Path, engine: FakeScheduler) -> None:
    numbers = []
    for _ in range(4):
        made = joined(study, engine).folder
        assert joined(study, engine).folder == made  # nobody has measured in it yet
        made.mark_done("0-0", Done("x"))
        numbers.append(number(made))
    assert numbers == [0, 1, 2, 3]
    assert sorted(path.name[-1] for path in (study / "jobs").iterdir()) == ["2", "3"]


def test_while_a_job_waits_the_same_command_attaches(study: Path, engine: FakeScheduler) -> None:
    first = joined(study, engine, 2).folder
    claimed(first)
    engine.held = True
    first.create("submissions", "0000", engine.submit(first, 1))
    first.create("submissions", "0000.jobs", {"1_0": None})
    assert joined(study, engine, 2) == Joined(first, ("fake-1_0",))


def test_while_the_scheduler_does_not_answer_the_same_command_attaches(
    study: Path, engine: FakeScheduler
) -> None:
    first = joined(study, engine, 2).folder
    claimed(first)
    engine.reachable = False
    assert joined(study, engine, 2).folder == first


def test_rows_of_a_sweep_that_ended_half_done_are_checked_again(
    study: Path, engine: FakeScheduler
) -> None:
    first = joined(study, engine, 3).folder
    claimed(first, stopped="no time left for another case")
    for task in ("1-0", "2-0"):
        claims.publish(first, Claim(task, 0, f"deleted-{task}", "fake-9_0", 0, "", None, task))
        first.mark_done(task, Done(f"deleted-{task}"))
    found = list(Driver(joined(study, engine, 3).folder, engine, 1).finished())
    assert sorted(found) == sorted(path.stem for path in rows(study))
    assert [text.split()[:2] for text in texts(study)] == [[f"{n}-0", "ok"] for n in range(3)]


def test_a_task_of_a_lost_worker_is_a_row_and_is_measured_again(
    study: Path, engine: FakeScheduler
) -> None:
    first = joined(study, engine).folder
    claim = claimed(first)
    second = joined(study, engine).folder
    assert (number(first), number(second)) == (0, 1)
    assert first.done("0-0").run_id == claim.run_id
    assert [text.split()[:2] for text in texts(study)] == [["0-0", "crashed"]]


def test_in_an_abandoned_generation_nothing_can_be_claimed(
    study: Path, engine: FakeScheduler
) -> None:
    first = joined(study, engine, 3).folder
    claimed(first, stopped="ended by a signal")
    joined(study, engine, 3)
    assert claims.free(first, first.sweep().names) == {}
    assert {claims.read(first, *each).worker for each in claims.open_claims(first)} == {"closed"}
    with pytest.raises(Incomplete, match="another command has taken this sweep over"):
        list(Driver(first, engine, 1).finished())
    assert engine.submissions == []


def test_a_worker_that_joins_while_its_generation_is_abandoned_ends_its_task_first(
    study: Path, engine: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = joined(study, engine, 2).folder
    claimed(first, stopped="ended by a signal")
    publish = claims.publish

    def joins(jobs: Folder, claim: Claim) -> bool:  # just before it is taken
        monkeypatch.setattr(claims, "publish", publish)
        members.write(jobs, Member("late", Process.of(1)))
        publish(jobs, Claim(claim.task, claim.number, "of-late", "late", 0, "", None, claim.task))
        threading.Timer(0.3, lambda: jobs.mark_done(claim.task, Done("of-late"))).start()
        return publish(jobs, claim)

    monkeypatch.setattr(claims, "publish", joins)
    assert number(joined(study, engine, 2).folder) == 1
    assert "of-late" in {first.done(task).run_id for task in first.names("done")}


def test_two_commands_at_once_abandon_one_generation_for_the_same_next_one(
    study: Path, engine: FakeScheduler
) -> None:
    claimed(joined(study, engine, 20).folder)
    found: list[Folder] = []
    barrier = threading.Barrier(4)

    def command() -> None:
        barrier.wait()
        found.append(joined(study, engine, 20).folder)

    threads = [threading.Thread(target=command) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [number(each) for each in found] == [1] * 4


@pytest.mark.parametrize(
    ("count", "jobs", "sentence"),
    [
        (8, ("7_0", "7_1"), "attached to 8 workers submitted earlier; their options stay; "
         "`fakecancel 7_0 7_1` and the same command submits with these"),
        (1, ("7_0",), "attached to 1 worker submitted earlier; their options stay; "
         "`fakecancel 7_0` and the same command submits with these"),
        (2, (), "attached to 2 workers of another command"),
    ],
)  # fmt: skip
def test_what_is_said_of_workers_that_were_there_before(
    study: Path, engine: FakeScheduler, count: int, jobs: tuple[str, ...], sentence: str
) -> None:
    made = joined(study, engine).folder
    made.create("submissions", f"0000{submissions.JOBS}", dict.fromkeys(jobs))
    living = tuple(f"fake-{each}" for each in range(count))
    assert launch.attached(engine, Joined(made, living)) == sentence

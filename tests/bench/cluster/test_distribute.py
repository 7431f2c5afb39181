"""A sweep in chunks on an engine of this process, whose jobs end as a test says."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from modescope.bench.cluster import distribute as module
from modescope.bench.cluster.chunk import Chunk, Entry, read_log
from modescope.bench.cluster.distribute import States, distribute
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request
from modescope.bench.sweep.sweep import Incomplete, Submission
from tests.helpers.commands import TINY, Ask

SWEEP = [*TINY, "mode=eager,no_grad,inference_mode", "shape.ops=1,2,3,4"]


class Jobs:
    """See `Engine`. Each job writes the lines of its chunk's log that `say` returns."""

    name = "slurm"

    def __init__(self, detaches: bool = False) -> None:
        self.detaches = detaches
        self.submitted: list[Sequence[Chunk]] = []
        self.interrupted: list[str] = []
        self.state: str | None = "COMPLETED"

    def say(self, number: int) -> str | None:
        return f"{number} run-{number}"

    def submit(self, chunks: Sequence[Chunk], folder: Path) -> list[str]:
        self.submitted.append(chunks)
        for chunk in chunks:
            lines = [line for number in chunk.numbers if (line := self.say(number))]
            chunk.log.write_text("".join(f"{line}\n" for line in lines))
        return [f"7_{number}" for number in range(len(chunks))]

    def states(self, jobs: Sequence[str]) -> States:
        return dict.fromkeys(jobs, self.state)

    def interrupt(self, jobs: Sequence[str]) -> None:
        self.interrupted += jobs


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.01)


def run(requests: Sequence[Request], jobs: Jobs, workers: int | None = None) -> Submission:
    submission = distribute(requests, jobs, workers)
    assert submission
    return submission


def test_each_case_is_in_one_chunk_and_all_are_finished(ask_quickly: Ask) -> None:
    jobs = Jobs()
    submission = run(ask_quickly(*SWEEP, "replicates=2"), jobs, 5)
    assert sorted(submission.finished) == sorted(f"run-{number}" for number in range(24))
    (chunks,) = jobs.submitted
    assert sorted(len(chunk.numbers) for chunk in chunks) == [4, 5, 5, 5, 5]
    assert sorted(number for chunk in chunks for number in chunk.numbers) == [*range(24)]


def test_order_given_keeps_the_order_and_random_mixes_the_modes(ask_quickly: Ask) -> None:
    jobs = Jobs()
    for order in ("given", "random"):
        run(ask_quickly(*SWEEP, f"order={order}"), jobs, 2)
    (given, _), (mixed, _) = jobs.submitted
    assert given.numbers == (0, 2, 4, 6, 8, 10)
    assert [*mixed.numbers] != sorted(mixed.numbers)


def test_equal_cases_are_measured_once(ask_quickly: Ask) -> None:
    jobs = Jobs()
    requests = ask_quickly(*SWEEP)
    assert run([*requests, *requests], jobs).runs == 12


@pytest.mark.parametrize(
    ("line", "refused", "words"),
    [
        (
            None,
            False,
            ("1 of 12 cases have no row", "8 jobs NODE_FAIL", "mode=no_grad shape.ops=2"),
        ),
        ("5 error: threads=9: too many", False, ("threads=9: too many",)),
    ],
    ids=["no row", "a mistake"],
)
def test_a_case_without_a_row_is_named(
    line: str | None,
    refused: bool,
    words: Sequence[str],
    ask_quickly: Ask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = Jobs()
    jobs.state = "NODE_FAIL"
    say = jobs.say
    monkeypatch.setattr(jobs, "say", lambda number: line if number == 5 else say(number))
    finished = run(ask_quickly(*SWEEP), jobs).finished
    runs: list[str] = []
    with pytest.raises(Incomplete) as incomplete:
        runs.extend(finished)
    assert all(word in str(incomplete.value) for word in words)
    assert incomplete.value.refused is refused


def test_nothing_measured_by_a_mistake_is_a_refusal(
    ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = Jobs()
    monkeypatch.setattr(jobs, "say", lambda number: f"{number} error: device=cuda: none here")
    with pytest.raises(Incomplete) as incomplete:
        next(run(ask_quickly(*SWEEP), jobs).finished)
    assert incomplete.value.refused


@pytest.mark.parametrize(
    ("detaches", "state", "submissions"), [(True, None, 1), (True, "FAILED", 2), (False, None, 2)]
)
def test_the_same_command_waits_for_jobs_that_live(
    detaches: bool, state: str | None, submissions: int, ask_quickly: Ask
) -> None:
    jobs = Jobs(detaches)
    say, jobs.say = jobs.say, lambda number: None  # type: ignore[method-assign]
    run(ask_quickly(*SWEEP), jobs)
    jobs.state, jobs.say = state, say  # type: ignore[method-assign]
    again = run(ask_quickly(*SWEEP), jobs)
    for chunk in jobs.submitted[0]:
        chunk.log.write_text("".join(f"{say(number)}\n" for number in chunk.numbers))
    assert len([*again.finished]) == 12
    assert len(jobs.submitted) == submissions


def test_another_sweep_does_not_wait_for_them(ask_quickly: Ask) -> None:
    jobs = Jobs(detaches=True)
    jobs.state = None
    run(ask_quickly(*SWEEP), jobs)
    run(ask_quickly(*SWEEP, "seed=7"), jobs)
    assert len(jobs.submitted) == 2


def test_ctrl_c_reaches_the_engine(ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs()
    finished = run(ask_quickly(*SWEEP), jobs).finished

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    jobs.state = None
    monkeypatch.setattr(jobs, "say", lambda number: None)
    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(run(ask_quickly(*SWEEP), jobs).finished)
    assert jobs.interrupted == [f"7_{number}" for number in range(8)]
    assert next(finished)


def test_a_dry_run_submits_nothing(ask_quickly: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = Jobs()
    assert distribute(ask_quickly(*SWEEP, "dry_run=true"), jobs) is None
    assert not jobs.submitted
    assert "12 cases in 8 jobs of cluster=slurm" in capsys.readouterr().out


def test_a_wrong_size_is_refused_before_anything_is_submitted(ask_quickly: Ask) -> None:
    with pytest.raises(UsageError, match=r"shape\.ops=0: must be a whole number"):
        distribute(ask_quickly(*TINY, "mode=eager", "shape.ops=8,0"), Jobs())


def test_a_line_that_is_still_being_written_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "chunk-0.log"
    log.write_text("3 begun\n3 run-3\n4 run-4 reused\n5 error: no such device\n6 begun\n7 run")
    assert [*read_log(log).values()] == [
        Entry(3, run_id="run-3"),
        Entry(4, run_id="run-4", reused=True),
        Entry(5, mistake="no such device"),
        Entry(6, begun=True),
    ]


def test_equal_cases_are_in_one_chunk(ask_quickly: Ask) -> None:
    run(ask_quickly(*SWEEP, "seed=0,1"), (jobs := Jobs()), 5)
    (chunks,) = jobs.submitted
    assert sorted(number for chunk in chunks for number in chunk.numbers) == [*range(24)]
    for chunk in chunks:
        words = [(*chunk.requests[n].overrides,) for n in chunk.numbers]
        without_seed = [tuple(w for w in each if not w.startswith("seed=")) for each in words]
        assert all(without_seed.count(each) == 2 for each in without_seed)


def test_a_finished_sweep_is_not_waited_for(ask_quickly: Ask) -> None:
    jobs = Jobs(detaches=True)
    jobs.state = None  # Slurm does not answer, or is completing
    assert len([*run(ask_quickly(*SWEEP), jobs).finished]) == 12
    run(ask_quickly(*SWEEP, "resume=false"), jobs)
    run(ask_quickly(*SWEEP, "resume=false"), jobs)
    assert len(jobs.submitted) == 3


def test_jobs_are_kept_in_the_folder_of_the_submission(ask_quickly: Ask) -> None:
    run(ask_quickly(*SWEEP), (jobs := Jobs()), 3)
    file = jobs.submitted[0][0].log.parent / "jobs.json"
    assert json.loads(file.read_text()) == ["7_0", "7_1", "7_2"]

"""A sweep in chunks on an engine of this process, whose jobs end as a test says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from modescope.bench.cluster import distribute as module
from modescope.bench.cluster.chunk import Chunk
from modescope.bench.cluster.distribute import States, distribute
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request
from modescope.bench.sweep.sweep import Incomplete, Submission
from tests.helpers.commands import TINY, Ask

SWEEP = [*TINY, "mode=eager,no_grad,inference_mode", "shape.ops=1,2,3,4"]


RUN = "{0} run-{0}"
"""The line of a finished case."""


@dataclass
class Jobs:
    """See `Engine`. Each job writes the lines of its chunk's log that `say` returns."""

    detaches: bool = False
    state: str | None = "COMPLETED"
    say: Callable[[int], str | None] = RUN.format
    name: str = "slurm"
    submitted: list[Sequence[Chunk]] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)

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
    jobs, requests = Jobs(), ask_quickly(*SWEEP, "replicates=2")
    submission = run([*requests, *requests], jobs, 5)  # equal cases are measured once
    assert sorted(submission.finished) == sorted(f"run-{number}" for number in range(24))
    (chunks,) = jobs.submitted
    assert sorted(len(chunk.numbers) for chunk in chunks) == [4, 5, 5, 5, 5]
    assert sorted(number for chunk in chunks for number in chunk.numbers) == [*range(24)]
    kept = json.loads((chunks[0].log.parent / "jobs.json").read_text())
    assert kept == [f"7_{number}" for number in range(5)]


def test_order_given_keeps_the_order_and_random_mixes_the_modes(ask_quickly: Ask) -> None:
    jobs = Jobs()
    for order in ("given", "random"):
        run(ask_quickly(*SWEEP, f"order={order}"), jobs, 2)
    (given, _), (mixed, _) = jobs.submitted
    assert given.numbers == (0, 2, 4, 6, 8, 10)
    assert [*mixed.numbers] != sorted(mixed.numbers)


def test_a_case_of_several_seeds_is_in_one_chunk(ask_quickly: Ask) -> None:
    run(ask_quickly(*SWEEP, "seed=0,1"), (jobs := Jobs()), 5)
    (chunks,) = jobs.submitted
    assert sorted(number for chunk in chunks for number in chunk.numbers) == [*range(24)]
    for chunk in chunks:
        words = [(*chunk.requests[n].overrides,) for n in chunk.numbers]
        without_seed = [tuple(w for w in each if not w.startswith("seed=")) for each in words]
        assert all(without_seed.count(each) == 2 for each in without_seed)


@pytest.mark.parametrize(
    ("of_five", "of_others", "refused", "words"),
    [
        (None, RUN, False, ("1 of 12 cases", "8 jobs NODE_FAIL", "mode=no_grad shape.ops=2")),
        ("5 error: threads=9: too many", RUN, False, ("threads=9: too many",)),
        ("5 error: no GPU", "{} error: no GPU", True, ("no GPU",)),
    ],
    ids=["no row", "a mistake", "nothing but mistakes"],
)
def test_a_case_without_a_row_is_named(
    of_five: str | None, of_others: str, refused: bool, words: Sequence[str], ask_quickly: Ask
) -> None:
    jobs = Jobs(state="NODE_FAIL", say=lambda n: of_five if n == 5 else of_others.format(n))
    finished = run(ask_quickly(*SWEEP), jobs).finished
    with pytest.raises(Incomplete) as incomplete:
        list(finished)
    assert all(word in str(incomplete.value) for word in words)
    assert incomplete.value.refused is refused


@pytest.mark.parametrize(
    ("detaches", "state", "other", "submissions"),
    [
        (True, None, "seed=0", 1),
        (True, None, "seed=7", 2),  # another sweep
        (True, "FAILED", "seed=0", 2),
        (False, None, "seed=0", 2),
    ],
)
def test_the_same_command_waits_for_jobs_that_live(
    detaches: bool, state: str | None, other: str, submissions: int, ask_quickly: Ask
) -> None:
    jobs = Jobs(detaches, say=lambda number: None)
    run(ask_quickly(*SWEEP, "seed=0"), jobs)
    jobs.state, jobs.say = state, RUN.format
    again = run(ask_quickly(*SWEEP, other), jobs)
    for chunk in jobs.submitted[0]:
        chunk.log.write_text("".join(f"{RUN.format(number)}\n" for number in chunk.numbers))
    assert len([*again.finished]) == 12
    assert len(jobs.submitted) == submissions


def test_a_finished_sweep_is_not_waited_for(ask_quickly: Ask) -> None:
    jobs = Jobs(detaches=True, state=None)  # Slurm does not answer, or is completing
    assert len([*run(ask_quickly(*SWEEP), jobs).finished]) == 12
    for _ in range(2):
        run(ask_quickly(*SWEEP, "resume=false"), jobs)
    assert len(jobs.submitted) == 3


def test_ctrl_c_reaches_the_engine(ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(state=None, say=lambda number: None)

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(run(ask_quickly(*SWEEP), jobs).finished)
    assert jobs.interrupted == [f"7_{number}" for number in range(8)]


def test_a_dry_run_or_a_wrong_size_submits_nothing(
    ask_quickly: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = Jobs()
    assert distribute(ask_quickly(*SWEEP, "dry_run=true"), jobs) is None
    assert "12 cases in 8 jobs of cluster=slurm" in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"shape\.ops=0: must be a whole number"):
        distribute(ask_quickly(*TINY, "mode=eager", "shape.ops=8,0"), jobs)
    assert not jobs.submitted

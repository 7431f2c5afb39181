"""A sweep in chunks on an engine of this process, whose jobs end as a test says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from modescope.bench.cluster import distribute as module
from modescope.bench.cluster.chunk import Chunk, Entry
from modescope.bench.cluster.distribute import States, distribute
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request
from modescope.bench.sweep.sweep import Incomplete, Submission
from tests.helpers.commands import TINY, Ask

SWEEP = [*TINY, "mode=eager,no_grad,inference_mode", "shape.ops=1,2,3,4"]


def finish(number: int) -> Entry | None:
    return Entry(number, f"run-{number}")


@dataclass
class Jobs:
    """See `Engine`. Each job writes the entries of its chunk's log that `say` returns."""

    detaches: bool = False
    state: str | None = "COMPLETED"
    say: Callable[[int], Entry | None] = finish
    name: str = "slurm"
    submitted: list[Sequence[Chunk]] = field(default_factory=list)

    def submit(self, chunks: Sequence[Chunk], folder: Path, path: str) -> list[str]:
        self.submitted.append(chunks)
        for chunk in chunks:
            self.write(chunk)
        return [f"7_{number}" for number in range(len(chunks))]

    def states(self, jobs: Sequence[str]) -> States:
        return dict.fromkeys(jobs, self.state)

    def write(self, chunk: Chunk) -> None:
        entries = [entry for number in chunk.numbers if (entry := self.say(number))]
        chunk.log.write_text("".join(f"{json.dumps(asdict(entry))}\n" for entry in entries))


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


def test_what_has_no_row_is_said(ask_quickly: Ask) -> None:
    def ends(say: Callable[[int], Entry | None]) -> tuple[str, bool]:
        finished = run(ask_quickly(*SWEEP), Jobs(state="NODE_FAIL", say=say)).finished
        with pytest.raises(Incomplete) as incomplete:
            list(finished)
        return str(incomplete.value), incomplete.value.refused

    mistake = "threads=9: too many"
    missing = "1 of 12 cases have no row (jobs: 8 NODE_FAIL); the same command measures them"
    assert ends(lambda n: None if n == 5 else finish(n)) == (missing, False)
    assert ends(lambda n: Entry(n, mistake=mistake) if n == 5 else finish(n)) == (mistake, False)
    assert ends(lambda n: Entry(n, mistake=mistake)) == (mistake, True)


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
    jobs.state, jobs.say = state, finish
    again = run(ask_quickly(*SWEEP, other), jobs)
    for chunk in jobs.submitted[0]:
        jobs.write(chunk)
    assert len([*again.finished]) == 12
    assert len(jobs.submitted) == submissions


def test_a_finished_sweep_is_not_waited_for(ask_quickly: Ask) -> None:
    jobs = Jobs(detaches=True, state=None)  # Slurm does not answer, or is completing
    assert len([*run(ask_quickly(*SWEEP), jobs).finished]) == 12
    for _ in range(2):
        run(ask_quickly(*SWEEP, "resume=false"), jobs)
    assert len(jobs.submitted) == 3


def test_a_dry_run_or_a_wrong_size_submits_nothing(
    ask_quickly: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = Jobs()
    assert distribute(ask_quickly(*SWEEP, "dry_run=true"), jobs) is None
    assert "12 case(s) in 8 job(s) of cluster=slurm" in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"shape\.ops=0: must be a whole number"):
        distribute(ask_quickly(*TINY, "mode=eager", "shape.ops=8,0"), jobs)
    assert not jobs.submitted

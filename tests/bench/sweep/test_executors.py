"""Executors: a planted one beside that of this machine."""

from __future__ import annotations

import pickle
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.resolve import Request
from modescope.bench.sweep import executors, jobs, record_attempt
from modescope.bench.sweep.executors import EXECUTORS, Executor, Submission
from tests.helpers.commands import TINY, Ask, Cli, rows

pytestmark = pytest.mark.full

FILE = "engine: elsewhere\npartition: null\n"
SWEEP = [*TINY, "-m", "cluster=elsewhere", "cluster.partition=gpu"]

Plant = Callable[[Callable[[Sequence[Request]], Submission]], list[str]]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Adds an executor to the table; returns the arguments that choose it for a sweep."""
    file = tmp_path / "conf" / "cluster" / "elsewhere.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(FILE)

    def planted(function: Callable[[Sequence[Request]], Submission]) -> list[str]:
        monkeypatch.setattr(executors, "planted", function, raising=False)
        entry = Executor("modescope.bench.sweep.executors:planted")
        monkeypatch.setitem(EXECUTORS, "elsewhere", entry)
        return [*SWEEP, f"--config-dir={tmp_path / 'conf'}"]

    return planted


def measured_last_first(requests: Sequence[Request]) -> Submission:
    """Measures requests like the workers of a cluster."""
    sent = [pickle.dumps(request) for request in requests]
    todo = [job for request in sent for job in jobs.prepare([pickle.loads(request)])]
    print(f"{len(todo)} cases in partition {requests[0].settings.cluster['partition']}")

    def finished() -> Iterator[str]:
        for job in reversed(todo):
            yield record_attempt.measure(job, on_phase=lambda phase: None)

    return Submission(todo[0].plan.study_folder, len(todo), finished())


def interrupted_after_one(requests: Sequence[Request]) -> Submission:
    submission = measured_last_first(requests)

    def finished() -> Iterator[str]:
        yield next(submission.finished)
        raise KeyboardInterrupt

    return replace(submission, finished=finished())


@pytest.mark.parametrize("entry", EXECUTORS.values(), ids=EXECUTORS)
def test_the_function_of_every_executor_exists(entry: Executor) -> None:
    assert callable(pkgutil.resolve_name(entry.function))


def test_an_executor_needs_one_entry_and_one_file(cli: Cli, results: Path, plant: Plant) -> None:
    answer = cli(*plant(measured_last_first), "mode=eager,no_grad")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("2 cases in partition gpu\n")
    assert [(row["mode"], row["status"]) for row in rows(results)] == [
        ("no_grad", "ok"),
        ("eager", "ok"),
    ]
    assert f"results  {results / 'main' / 'rows'}" in answer.out


def test_runs_finished_before_an_interruption_are_shown(
    cli: Cli, results: Path, plant: Plant
) -> None:
    answer = cli(*plant(interrupted_after_one), "mode=eager,no_grad")
    assert (answer.status, answer.err) == (130, "")
    assert "stopped after 1 of 2; run the sweep again to continue" in answer.out
    assert f"results  {results / 'main' / 'rows'}" in answer.out
    assert [row["mode"] for row in rows(results)] == ["no_grad"]


def test_a_usage_error_of_an_executor_measures_nothing(
    cli: Cli, results: Path, plant: Plant
) -> None:
    answer = cli(*plant(measured_last_first), "mode=eager", "threads=1,100000")
    assert answer.status == 2
    assert "threads=100000: this process may use" in answer.err
    assert not rows(results)


def test_without_a_cluster_this_machine_measures(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Submission(Path("here"), 1, iter(()))
    monkeypatch.setattr("modescope.bench.sweep.local_executor.submit", lambda requests: here)
    assert executors.submit(ask("mode=eager")) is here
    assert executors.submit(ask("-m", "mode=eager")) is here

"""The processes of one attempt, in order."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.records.environment import Scheduling
from modescope.bench.records.results import CACHE_FILLED, Findings, Result
from modescope.bench.sweep import attempt, isolation, prepare
from modescope.bench.sweep.isolation import Outcome
from modescope.bench.sweep.prepare import Job
from tests.helpers.commands import Ask
from tests.helpers.stored_rows import rows_in
from tests.helpers.worlds import World

Prepare = Callable[..., Job]


@pytest.fixture
def job(ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Prepare]:
    """The job of one case, on a made-up host."""

    def prepared(*words: str) -> Job:
        with monkeypatch.context() as patch:
            patch.setattr(isolation, "call", World().call)
            (one,) = prepare.prepare(ask_quickly(*words, f"results_dir={tmp_path}"))
        return one

    prepare._hosts.clear()
    yield prepared
    prepare._hosts.clear()


def ended(value: object) -> Outcome:
    return Outcome("returned", value)


MEASURED = ended(Result("failed", "measured", Findings()))
FILLED = ended(Result(CACHE_FILLED, "the compiler's cache lacked its code", Findings()))
KILLED = Outcome("crashed", None, "by SIGKILL")


@pytest.mark.parametrize(
    ("cache", "processes", "status"),
    [
        ("cold", [("run", MEASURED)], "failed"),
        # another process fills an empty cache, and is not measured
        ("warm", [("fill", FILLED), ("run", MEASURED)], "failed"),
        ("warm", [("fill", MEASURED)], "failed"),
        ("warm", [("fill", KILLED)], "crashed"),
    ],
)
def test_the_processes_of_an_attempt(
    job: Prepare, monkeypatch: pytest.MonkeyPatch, cache: str,
    processes: list[tuple[str, Outcome]], status: str,
) -> None:  # fmt: skip
    one = job("mode=max-autotune-no-cudagraphs", f"compile_cache={cache}")
    left, called = [outcome for _, outcome in processes], []

    def call(function: str, *arguments: Any, **options: Any) -> Outcome:
        called.append("fill" if arguments[1].fills_cache else "run")
        return left.pop(0)

    monkeypatch.setattr(isolation, "call", call)
    assert attempt._result(one, "20260302", lambda phase: None).status == status
    assert called == [name for name, _ in processes]


ON_N1 = Scheduling("n1", "slurm", "1234_5", 1)


@pytest.mark.parametrize(
    ("given", "folder", "expected"),
    [(None, "rows", Scheduling(node=socket.gethostname())), (ON_N1, "confirmations", ON_N1)],
    ids=["here", "in a job"],
)
def test_a_row_names_its_node_and_job(
    job: Prepare,
    monkeypatch: pytest.MonkeyPatch,
    given: Scheduling | None,
    folder: str,
    expected: Scheduling,
) -> None:
    one = job("mode=eager")
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(isolation, "call", lambda *arguments, **options: MEASURED)
    held = attempt.attempt(one, where=given, folder=folder)
    (row,) = rows_in(one.plan.study_folder / folder / f"{held['run_id']}.parquet")
    assert row.keys() == held.keys()
    assert all(row[name] == value for name, value in held.items() if not isinstance(value, tuple))
    assert {name: row[name] for name in asdict(expected)} == asdict(expected)

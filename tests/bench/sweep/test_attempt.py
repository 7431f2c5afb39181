"""The processes of one attempt, in order."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.records.cases import Case, Plan
from modescope.bench.records.environment import Scheduling
from modescope.bench.records.results import CACHE_FILLED, Findings, Result
from modescope.bench.sweep import attempt, isolation, prepare
from modescope.bench.sweep.isolation import Outcome
from modescope.bench.sweep.prepare import Job
from tests.helpers.commands import Ask
from tests.helpers.stored_rows import rows_in
from tests.helpers.worlds import World

MEASURED = Outcome("returned", Result("failed", "measured", Findings()))
TRIAL, RUN = "tuning_trial:nothing_to_tune", "runner:run"


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


Attempt = Callable[[Job, Outcome], tuple[Result, list[str]]]


@pytest.fixture
def attempted(
    monkeypatch: pytest.MonkeyPatch,
) -> Attempt:
    """Attempts a job whose trial ends as given; the result and the functions that were called."""

    def attempted(job: Job, trial: Outcome) -> tuple[Result, list[str]]:
        called: list[str] = []

        def call(function: str, *arguments: Any, **options: Any) -> Outcome:
            called.append(function.removeprefix("modescope.bench.case."))
            return trial if called[-1] == TRIAL else MEASURED

        monkeypatch.setattr(isolation, "call", call)
        return attempt._result(job, "20260302", lambda phase: None), called

    return attempted


@pytest.mark.parametrize(
    ("untuned", "trial", "status", "expected"),
    [
        ("compile", Outcome("returned", True), "skipped", [TRIAL]),
        ("compile", Outcome("returned", False), "failed", [TRIAL, RUN]),
        ("compile", Outcome("failed", reason="no such operator"), "failed", [TRIAL, RUN]),
        ("compile", Outcome("timeout"), "failed", [TRIAL, RUN]),
        (None, Outcome("returned", True), "failed", [RUN]),
    ],
)
def test_what_has_nothing_to_tune_is_not_measured(
    job: Prepare,
    attempted: Attempt,
    untuned: str | None,
    trial: Outcome,
    status: str,
    expected: list[str],
) -> None:
    one = job("mode=max-autotune-no-cudagraphs")
    result, called = attempted(replace(one, plan=replace(one.plan, untuned=untuned)), trial)
    assert (result.status, called) == (status, expected)


FILLED = Outcome(
    "returned", Result(CACHE_FILLED, "the compiler's cache lacked its code", Findings())
)


@pytest.mark.parametrize(
    ("cache", "outcomes", "filling"),
    [
        ("warm", [FILLED, MEASURED], [True, False]),
        ("warm", [MEASURED], [True]),
        ("warm", [Outcome("crashed", None, "by SIGKILL")], [True]),
        ("cold", [MEASURED], [False]),
    ],
)
def test_a_warm_first_call_is_of_a_process_that_finds_the_cache_filled(
    job: Prepare,
    monkeypatch: pytest.MonkeyPatch,
    cache: str,
    outcomes: list[Outcome],
    filling: list[bool],
) -> None:
    """Another process fills an empty cache and is not measured."""
    one = job("mode=compile", f"compile_cache={cache}")
    left, plans = list(outcomes), []

    def call(function: str, case: Case, plan: Plan, run_id: str, **options: Any) -> Outcome:
        plans.append(plan)
        return left.pop(0)

    monkeypatch.setattr(isolation, "call", call)
    result = attempt._result(one, "20260302", lambda phase: None)
    assert [plan.fills_cache for plan in plans] == filling
    assert result.status == (outcomes[-1].value.status if outcomes[-1].value else "crashed")
    assert left == []


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
    path = one.plan.study_folder / folder / f"{held['run_id']}.parquet"
    (row,) = rows_in(path)
    assert row.keys() == held.keys()
    assert all(row[name] == value for name, value in held.items() if not isinstance(value, tuple))
    assert {name: row[name] for name in asdict(expected)} == asdict(expected)

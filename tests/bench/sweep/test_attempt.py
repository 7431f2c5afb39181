"""The processes of one attempt, in order, and its row."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.records.caches import CACHES, SAVED, Cache
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Findings, Result
from modescope.bench.settings import LIMITS
from modescope.bench.sweep import attempt, isolation, prepare
from modescope.bench.sweep.isolation import ChildOutcome, Ending, Task
from tests.helpers.commands import Ask, rows
from tests.helpers.worlds import World


def ended(value: object) -> ChildOutcome[Any]:
    return ChildOutcome(Ending.RETURNED, value)


MEASURED = ended(Result(Status.FAILED, "measured", Findings()))
FILLED = ended(Result(Status.CACHE_FILLED, "the compiler's cache lacked its code", Findings()))
LATE = ChildOutcome(Ending.TIMEOUT, None, "during package")
KILLED = ChildOutcome(Ending.CRASHED, None, "by SIGKILL")


FIRST, SECOND = "somewhere:first", "somewhere:second"
EMPTY = {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}
VARIABLES = {"cold": EMPTY, "warm": set(), "made-up": {"PLACE"}}
RUN, FILL = "modescope.bench.case.runner:run", "modescope.bench.case.runner:fill"
PACKAGE = "modescope.bench.case.packaging:build"
MADE_UP = Cache(
    "as two processes leave it", lambda: nullcontext({"PLACE": "here"}), (FIRST, SECOND)
)


@pytest.mark.parametrize(
    ("cache", "processes", "status"),
    [
        ("cold", [(RUN, MEASURED)], "failed"),
        # another process fills an empty cache, and is not measured
        ("warm", [(FILL, FILLED), (RUN, MEASURED)], "failed"),
        ("warm", [(FILL, MEASURED)], "failed"),
        ("warm", [(FILL, KILLED)], "crashed"),
        ("made-up", [(FIRST, FILLED), (SECOND, FILLED), (RUN, MEASURED)], "failed"),
        ("made-up", [(FIRST, FILLED), (SECOND, MEASURED)], "failed"),
    ],
)
def test_the_processes_of_an_attempt(
    ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    cache: str, processes: list[tuple[str, ChildOutcome[Any]]], status: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(prepare, "_hosts", {})
    monkeypatch.setattr(isolation, "call", World().call)
    monkeypatch.setitem(CACHES, "made-up", MADE_UP)
    words = ("mode=max-autotune-no-cudagraphs", f"results_dir={tmp_path}")
    (job,) = prepare.prepare(ask_quickly(*words))
    job = replace(job, plan=replace(job.plan, compile_cache=cache))
    left, called = [outcome for _, outcome in processes], []
    variables: list[set[str]] = []

    def call(task: Task[Any], *arguments: Any, **options: Any) -> ChildOutcome[Any]:
        called.append(task.function)
        assert arguments[:2] == (job.case, job.plan)
        variables.append({*options["variables"]})
        return left.pop(0)

    monkeypatch.setattr(isolation, "call", call)
    held = attempt.attempt(job)
    (row,) = rows(tmp_path)
    assert called == [name for name, _ in processes]
    assert variables == [VARIABLES[cache]] * len(processes)
    assert row["status"] == held["status"] == status
    assert row["run_id"] == held["run_id"]
    assert row["compile_cache"] == cache


def test_a_confirmation_prepares_no_cache(
    ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(prepare, "_hosts", {})
    monkeypatch.setattr(isolation, "call", World().call)
    (job,) = prepare.prepare(ask_quickly("mode=compile", f"results_dir={tmp_path}"))
    called: list[str] = []

    def call(task: Task[Any], *arguments: Any, **options: Any) -> ChildOutcome[Any]:
        called.append(task.function)
        return MEASURED

    monkeypatch.setattr(isolation, "call", call)
    plan = replace(job.plan, compile_cache="warm", latency_alone=True)
    attempt.attempt(replace(job, plan=plan))
    assert called == [RUN]


@pytest.mark.parametrize(
    ("cache", "alone", "processes", "status"),
    [
        ("cold", False, [(PACKAGE, FILLED), (RUN, MEASURED)], "failed"),
        ("cold", True, [(PACKAGE, FILLED), (RUN, MEASURED)], "failed"),
        ("warm", False, [(PACKAGE, FILLED), (FILL, MEASURED)], "failed"),
        ("warm", True, [(PACKAGE, FILLED), (RUN, MEASURED)], "failed"),
        ("cold", False, [(PACKAGE, ended(Result(Status.FAILED, "export", Findings())))], "failed"),
        ("cold", False, [(PACKAGE, LATE)], "timeout"),
        ("cold", False, [(PACKAGE, KILLED)], "crashed"),
    ],
)
def test_a_package_is_built_in_a_folder_that_its_processes_share(
    ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    cache: str, alone: bool, processes: list[tuple[str, ChildOutcome[Any]]], status: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(prepare, "_hosts", {})
    monkeypatch.setattr(isolation, "call", World().call)
    (job,) = prepare.prepare(ask_quickly("mode=aoti", f"results_dir={tmp_path}"))
    job = replace(job, plan=replace(job.plan, compile_cache=cache, latency_alone=alone))
    left, called = [outcome for _, outcome in processes], []
    folders: list[str] = []

    def call(task: Task[Any], *arguments: Any, **options: Any) -> ChildOutcome[Any]:
        called.append(task.function)
        folders.append(options["variables"][SAVED])
        assert Path(folders[-1]).is_dir()
        return left.pop(0)

    monkeypatch.setattr(isolation, "call", call)
    row = attempt.attempt(job)
    assert (called, row["status"]) == ([name for name, _ in processes], status)
    assert len({*folders}) == 1
    assert not Path(folders[0]).exists()


def test_the_setting_allows_every_state_of_the_cache() -> None:
    assert LIMITS["compile_cache"]["choices"] == (*CACHES,) == ("cold", "warm")
    assert [cache.starts_empty for cache in CACHES.values()] == [True, False]

"""The processes of one attempt, in order, and its row."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.records.caches import CACHES, SAVED, Cache
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Findings, Result
from modescope.bench.records.starts import Start
from modescope.bench.settings import LIMITS
from modescope.bench.sweep import attempt, isolation, prepare, starts
from modescope.bench.sweep.isolation import ChildOutcome, Ending, Task
from modescope.bench.sweep.starts import Timed
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
    assert LIMITS["compile_cache"]["choices"] == (*CACHES,)
    assert [name for name, cache in CACHES.items() if cache.starts_empty] == ["cold"]


class Measures:
    """Stands for `isolation.call` and `starts.run`: processes asked for, and what they say.

    `hits` and `misses` are what those that start count.
    """

    def __init__(self, hits: int = 1, misses: int = 0, failure: str | None = None) -> None:
        self.counts: dict[str, Any] = {"hits": hits, "misses": misses, "failure": failure}
        self.asked: list[str] = []
        self.variables: list[dict[str, str]] = []
        self.outcome = ended(Result(Status.OK, None, self.findings()))

    def findings(self) -> Findings:
        checks = replace(Findings().checks, in_effect=True, in_effect_note="one note")
        return replace(Findings(), checks=checks)

    def run(self, description: Path, variables: dict[str, str], *given: Any) -> Timed:
        self.asked.append("fill" if pickle.loads(description.read_bytes()).fills else "start")
        self.variables.append(variables)
        return Timed(replace(Start(), **self.counts), 1.0, 2.0)

    def call(self, task: Task[Any], *arguments: Any, **options: Any) -> ChildOutcome[Any]:
        self.asked.append(task.function)
        self.variables.append(options["variables"])
        assert all(Path(folder).parent.exists() for folder in options["variables"].values())
        return self.outcome

    def attempt(
        self, ask: Ask, patch: pytest.MonkeyPatch, results: Path, *words: str, **planned: Any
    ) -> dict[str, Any]:
        patch.setattr(prepare, "_hosts", {})
        patch.setattr(isolation, "call", World().call)
        (job,) = prepare.prepare(ask("baseline.mode=none", f"results_dir={results}", *words))
        patch.setattr(isolation, "call", self.call)
        patch.setattr(starts, "run", self.run)
        return dict(attempt.attempt(replace(job, plan=replace(job.plan, **planned))))


@pytest.mark.parametrize(
    ("words", "planned", "asked"),
    [
        (("mode=compile", "starts=2"), {}, ["start", "start", RUN]),
        (("mode=compile", "compile_cache=warm"), {}, [FILL]),
        (("mode=compile", "compile_cache=warm", "starts=1"), {}, ["fill", "start", RUN]),
        (("mode=compile", "compile_cache=shipped"), {}, ["fill", RUN]),
        (("mode=compile", "compile_cache=aot", "starts=1"), {}, ["fill", "start", RUN]),
        (("mode=eager", "compile_cache=shipped"), {}, [RUN]),
        (("mode=eager", "compile_cache=warm", "starts=1"), {}, ["start", RUN]),
        (("mode=aoti", "compile_cache=shipped", "starts=1"), {}, ["fill", "start", RUN]),
        # a confirmation times no first call
        (("mode=compile", "compile_cache=shipped"), {"latency_alone": True}, ["fill", RUN]),
    ],
    ids=str,
)
def test_the_processes_of_a_case_that_counts_starts(
    ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    words: tuple[str, ...], planned: dict[str, Any], asked: list[str],
) -> None:  # fmt: skip
    world = Measures()
    row = world.attempt(ask_quickly, monkeypatch, tmp_path, *words, **planned)
    assert world.asked == asked
    assert (row["status"], row["in_effect"]) == ("ok", True)
    started = asked.count("start")
    assert row["starts_s"] == ((1.0,) * started or None)
    assert row["fill_s"] == (2.0 if "fill" in asked else None)


def test_the_process_that_measures_finds_what_those_found_that_started(
    ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = Measures()
    words = ("mode=compile", "compile_cache=precompiled", "starts=1")
    world.attempt(ask_quickly, monkeypatch, tmp_path, *words)
    filled, started, measured = world.variables
    assert filled == started == measured
    assert not any(Path(folder).exists() for folder in measured.values())


@pytest.mark.parametrize(
    ("world", "note"),
    [
        (Measures(), "one note"),
        (Measures(hits=0), "one note; new processes did not take all from compile_cache=shipped"),
        (Measures(misses=1), "one note; new processes did not take all from compile_cache=shipped"),
    ],
    ids=["used", "not found", "made again"],
)
def test_a_cache_that_is_not_used_is_not_in_effect(
    ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, world: Measures, note: str
) -> None:
    words = ("mode=compile", "compile_cache=shipped", "starts=1")
    row = world.attempt(ask_quickly, monkeypatch, tmp_path, *words)
    assert row["status"] == "ok"
    assert row["in_effect"] == (note == "one note")
    assert row["in_effect_note"].startswith(note)


def test_a_case_whose_processes_fail_is_not_measured(
    ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = Measures(failure="no space")
    words = ("mode=compile", "compile_cache=shipped", "starts=1")
    row = world.attempt(ask_quickly, monkeypatch, tmp_path, *words)
    assert world.asked == ["fill"]
    assert (row["status"], row["starts_s"], row["fill_s"]) == ("failed", None, None)
    assert "no space" in row["reason"]


def test_starts_are_kept_if_the_process_that_measures_dies_later(
    ask_quickly: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = Measures()
    world.outcome = KILLED
    row = world.attempt(ask_quickly, monkeypatch, tmp_path, "mode=compile", "starts=1")
    assert row["status"] == "crashed"
    result = Result(Status.OK, None, world.findings())
    world.outcome = ChildOutcome(KILLED.kind, result, KILLED.reason)
    row = world.attempt(ask_quickly, monkeypatch, tmp_path, "mode=compile", "starts=1")
    assert (row["status"], row["starts_s"]) == ("ok", (1.0,))

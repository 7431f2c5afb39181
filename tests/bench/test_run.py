"""How often a command reads the study that it measures, derives its rows and recommends modes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from modescope.analysis import load, metrics, snapshot, table
from modescope.analysis.report import report
from modescope.analysis.snapshot import Snapshot
from modescope.bench import run
from modescope.bench.sweep import isolation, others, prepare
from tests.helpers import composing
from tests.helpers.commands import Ask
from tests.helpers.worlds import World

CASES = ["budget=quick", "model=pointwise", "shape=small", "order=given"]
SWEEP = ["-m", *CASES, "mode=eager,no_grad,compile"]
ONCE = {"rows": 1, "confirmations": 1, "derive": 1, "recommend": 1}
TWICE = dict.fromkeys(ONCE, 2)
REPORTED = {"strips": 1}  # ratios of rounds, which only a report reads
FAST = {"compile": 0.5, "no_grad": 0.9}

Command = Callable[..., tuple[str, dict[str, int]]]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World()
    monkeypatch.setattr(isolation, "call", made.call)
    monkeypatch.setattr(others, "warning", lambda: "")
    prepare._hosts.clear()
    yield made
    prepare._hosts.clear()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts folders read for a table or report, derivations and recommendations."""
    counts: Counter[str] = Counter()

    def count(module: ModuleType, function: str, name: Callable[..., str]) -> None:
        counted = getattr(module, function)

        def counting(*arguments: Any, **options: Any) -> Any:
            counts[name(*arguments)] += 1
            return counted(*arguments, **options)

        monkeypatch.setattr(module, function, counting)

    count(load, "_rows", lambda folder, *columns: "strips" if columns else str(folder.name))
    count(metrics, "combine", lambda *_: "derive")
    for module in (snapshot, table, report):
        count(module, "recommend", lambda *_: "recommend")
    return counts


@pytest.fixture
def command(
    world: World, counted: Counter[str], results: Path, capsys: pytest.CaptureFixture[str]
) -> Command:
    def call(*words: str) -> tuple[str, dict[str, int]]:
        """What a command prints, and how often it did what `counted` counts."""
        counted.clear()
        arguments = [f"results_dir={results}", *(word for word in words if word != "-m")]
        requests = composing.requests(arguments)
        assert run.measure([replace(each, sweep="-m" in words) for each in requests]) == 0
        return capsys.readouterr().out, dict(counted)

    return call


def test_a_sweep_reads_its_study_once_and_again_only_after_confirming(
    command: Command, world: World
) -> None:
    world.slower = FAST
    said, counts = command(*SWEEP)
    assert (counts, len(world.measured)) == (TWICE | REPORTED, 3 + 2)
    assert "use for pointwise" in said
    said, counts = command(*SWEEP)
    assert (counts, len(world.measured)) == (ONCE | REPORTED, 3 + 2)
    assert "use for pointwise" in said


def test_beside_other_rows_those_of_the_sweep_are_derived_by_themselves(
    command: Command, world: World
) -> None:
    command(*CASES, "mode=amp")
    said, counts = command(*SWEEP)
    assert counts == ONCE | REPORTED | {"derive": 2, "recommend": 2}
    assert [" amp " in said, " no_grad " in said] == [False, True]


def test_a_single_case_is_printed_from_the_row_in_hand(command: Command, world: World) -> None:
    world.slower = FAST
    command(*SWEEP)
    said, counts = command(*CASES, "mode=compile")
    assert counts == {"derive": 1}
    assert "2.000× [2.000, 2.000]" in said
    said_again, counts = command(*CASES, "mode=compile", "resume=true")
    assert counts == {"rows": 1, "confirmations": 1, "derive": 1}
    assert "2.000× [2.000, 2.000]" in said_again


def test_a_row_in_hand_is_the_row_that_is_read(
    command: Command, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Snapshot] = []

    def keep(study: Path, run_ids: object, found: Snapshot, is_sweep: bool) -> int:
        held.append(found)
        return 0

    monkeypatch.setattr(run, "show", keep)
    command(*CASES, "mode=compile")
    pd.testing.assert_frame_equal(held[0].stored.table, load.read(results / "main").table)


def test_the_next_command_names_a_function_as_a_user_types_it(ask: Ask) -> None:
    (request,) = ask("model=my.net:build", "mode=eager", "budget=smoke", "seed=3")
    words = run._every_mode(request).split()
    assert "model=my.net:build" in words
    assert not [word for word in words if word.startswith(("model=custom", "model.target"))]

"""What a sweep measures, in which order, what it reuses and what it prints.

Children are replaced by a stand-in with immediate results, so only the sweep is tested.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.analysis.metrics import derived
from modescope.bench import run as running
from modescope.bench.records.columns.starting import Starts
from modescope.bench.records.outcomes import Status
from modescope.bench.sweep import isolation, others, prepare, progress_bar, starts, sweep
from tests.helpers import composing
from tests.helpers.commands import Answer, Cli, last_of_each, rows, rows_in
from tests.helpers.made_up_records import CPU, H100
from tests.helpers.worlds import World

SWEEP = ["-m", "budget=smoke", "model=pointwise", "shape=small", "mode=eager,no_grad"]
MEASURING = re.compile("(?:reusing|measuring) .*")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(isolation, "call", made.call)
    return made


Command = Callable[..., list[str]]


@pytest.fixture
def run(
    world: World, results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cli]:
    """A command without memory of earlier ones; its table is left out."""
    monkeypatch.setattr(running, "show", lambda *_: 0)
    monkeypatch.setattr(others, "warning", lambda: "")

    def call(*arguments: str) -> Answer:
        prepare._hosts.clear()
        words = [word for word in arguments if word != "-m"]
        composed = composing.requests([f"results_dir={results}", *words])
        requests = [replace(each, sweep="-m" in arguments) for each in composed]
        return Answer(running.measure(requests), *capsys.readouterr())

    yield call
    prepare._hosts.clear()


@pytest.fixture
def command(run: Cli, world: World) -> Command:
    """Runs a command; returns its lines about reuse."""

    def call(*arguments: str) -> list[str]:
        world.measured.clear()
        return MEASURING.findall(run(*last_of_each(*arguments)).out)

    return call


# Stopping early, confirming, progress

MODES = ["-m", "budget=quick", "model=pointwise", "shape=small", "mode=eager,no_grad,compile"]
ALONE = ["budget=quick", "model=pointwise", "shape=small", "mode=compile"]


@pytest.mark.parametrize(
    ("more", "half_width"), [([], 0.05), (["budget=thorough"], None), (["replicates=2"], None)]
)
def test_only_a_sweep_of_single_processes_may_stop_early(
    command: Command, world: World, more: list[str], half_width: float | None
) -> None:
    command(*MODES, *more)
    assert {plan.budget.slow_half_width for _, plan in world.measured} == {half_width}
    command(*ALONE, *more)
    assert {plan.budget.slow_half_width for _, plan in world.measured} == {None}


def test_what_another_process_saved_is_saved_again_for_a_second_process(
    command: Command, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "measure", lambda *given: Starts())
    world.slower = {"compile": 0.5}
    command(*MODES[:-1], "mode=eager,compile", "compile_cache=precompiled", "order=given")
    plans = [plan for case, plan in world.measured if case.variant.mode.name == "compile"]
    assert [plan.latency_alone for plan in plans] == [False, True]
    assert {plan.compile_cache for plan in plans} == {"precompiled"}


def test_a_mode_to_switch_to_and_the_next_best_are_measured_once_more(
    command: Command, world: World, results: Path
) -> None:
    world.slower = {"compile": 0.5, "no_grad": 0.9}
    command(*MODES, "order=given")
    again = [(case.variant.mode.name, plan) for case, plan in world.measured[3:]]
    assert [mode for mode, _ in again] == ["compile", "no_grad"]
    for _, plan in again:
        assert (plan.latency_alone, plan.profile, plan.memory) == (True, False, False)
        assert (plan.compile_cache, plan.budget.name, plan.replicate) == ("warm", "quick", 1)
    runs = {row["mode"]: row for row in rows(results)}
    files = sorted((results / "main" / "confirmations").glob("*.parquet"))
    confirming = [row for file in files for row in rows_in(file)]
    assert [row["confirms"] for row in confirming] == [
        runs[mode]["run_id"] for mode in ("compile", "no_grad")
    ]
    assert {row["confirms"] for row in runs.values()} == {None}
    command(*MODES)
    assert world.measured == []


@pytest.mark.parametrize(
    ("more", "explained"),
    [
        (["explain=best"], [("compile", "true"), ("no_grad", "false")]),
        ([], [("compile", "false"), ("no_grad", "false")]),
        (["explain=best", "phase=train"], []),
    ],
)
def test_a_sweep_explains_its_best_compiled_mode_in_a_second_process(
    command: Command, world: World, more: list[str], explained: list[tuple[str, str]]
) -> None:
    world.slower = {"compile": 0.5, "no_grad": 0.9}
    command(*MODES, "order=given", *more)
    again = [(case.variant.mode.name, plan.explain) for case, plan in world.measured[3:]]
    assert again == explained


def test_a_compiled_mode_that_is_not_recommended_is_explained_too(
    command: Command, world: World
) -> None:
    world.slower = {"compile": 1.5, "no_grad": 0.9}
    command(*MODES, "order=given", "explain=best")
    again = [(case.variant.mode.name, plan.explain) for case, plan in world.measured[3:]]
    assert again == [("compile", "true")]


def test_without_a_terminal_each_finished_case_is_a_line(run: Cli, world: World) -> None:
    world.slower = {"compile": 1.5, "no_grad": 0.9}
    lines = run(*MODES, "order=given").err.splitlines()
    assert [line.partition("  ")[0] for line in lines] == ["1/3", "2/3", "3/3"]
    assert [line.split()[-3] for line in lines] == ["equivalent,", "faster,", "slower,"]
    assert run(*ALONE).err == ""


def test_a_sweep_says_first_that_the_machine_is_busy(
    run: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others, "warning", lambda: "warning: busy")
    assert run(*MODES).err.startswith("warning: busy\n")
    assert "busy" not in run(*MODES).err  # nothing is left to measure
    with progress_bar.show(False):
        assert run(*MODES, "resume=false").err == ""


# What is left out


def test_what_repeats_a_case_on_a_cpu_is_skipped_in_a_sweep_and_measured_alone(
    command: Command, world: World, results: Path
) -> None:
    pair = ["budget=smoke", "model=pointwise", "shape=small"]
    command("-m", *pair, "mode=compile,reduce-overhead")
    assert [case.variant.mode.name for case, _ in world.measured] == ["compile"]
    skipped = next(row for row in rows(results) if row["mode"] == "reduce-overhead")
    assert skipped["status"] == "skipped"
    assert "the kernels of mode=compile again" in skipped["reason"]
    command("-m", *pair, "mode=reduce-overhead")
    assert [case.variant.mode.name for case, _ in world.measured] == ["reduce-overhead"]


def test_a_precision_that_is_lacking_is_one_line_beside_others_and_a_row_alone(
    run: Cli, world: World, results: Path
) -> None:
    few = ["-m", "budget=smoke", "model=pointwise", "shape=small"]
    said = run(*few, "mode=eager,tf32/eager,tf32/compile").out.splitlines()
    assert [line for line in said if "in tf32" in line] == [
        "left out: 2 in tf32, which needs an NVIDIA GPU of compute capability 8.0 or newer"
    ]
    assert [row["dtype"] for row in rows(results)] == ["fp32"]
    assert "left out" not in run(*few, "mode=tf32/compile").out
    world.device = replace(CPU, instructions="avx2")
    listed = run(*few, "mode=eager,tf32/eager,bf32/eager", "dry_run=true").out
    assert ("1 in tf32, which" in listed, "1 in bf32, which" in listed) == (True, True)
    assert "mode=bf32/eager" not in listed
    world.device = replace(CPU, instructions="avx512_bf16")
    assert "mode=bf32/eager" in run(*few, "mode=eager,bf32/eager", "dry_run=true").out
    world.device = H100
    listed = run(*few, "mode=eager,tf32/eager", "dry_run=true").out
    assert ("left out" in listed, "mode=tf32/eager" in listed) == (False, True)
    world.device = CPU
    assert {row["dtype"]: row["status"] for row in rows(results)} == {
        "fp32": "ok",
        "tf32": "skipped",
    }


@pytest.mark.parametrize(
    ("words", "compiler"),
    [
        (["mode=eager,no_grad"], False),
        (["mode=eager,compile"], True),
        (["mode=eager", "phase=train", "model=mlp"], True),
    ],
)
def test_the_compiler_is_imported_only_where_something_compiles(
    words: list[str], compiler: bool, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[bool] = set()
    monkeypatch.setattr(isolation, "start", seen.add)
    command("-m", "budget=smoke", "model=pointwise", "shape=small", *words)
    assert seen == {compiler}


# Order

SIZES = "shape.ops=1,2,3"
AS_GIVEN = [(mode, ops) for mode in ("eager", "no_grad") for ops in (1, 2, 3)]


def modes_and_sizes(world: World) -> list[tuple[str, int]]:
    return [(case.variant.mode.name, case.shape["ops"]) for case, _ in world.measured]


def test_the_order_is_random_and_recorded(command: Command, world: World, results: Path) -> None:
    orders = []
    for seed in (0, 0, 1):
        command(*SWEEP, SIZES, f"seed={seed}", "resume=false")
        orders.append(modes_and_sizes(world))
    first, same, other = orders
    assert sorted(first) == AS_GIVEN
    assert first == same
    assert len({tuple(order) for order in (first, other, AS_GIVEN)}) == 3
    oldest = [(row["position"], row["case_order"], row["mode"]) for row in rows(results)[:6]]
    assert oldest == [(position, "random", mode) for position, (mode, _) in enumerate(first)]


def test_positions_count_reused_cases_in_the_given_order(
    command: Command, world: World, results: Path
) -> None:
    command(*SWEEP[:-1], "mode=eager", "order=given", SIZES)
    command(*SWEEP, "order=given", SIZES)
    assert modes_and_sizes(world) == AS_GIVEN[3:]
    found = rows(results)
    assert [(row["mode"], row["position"]) for row in found] == [
        (mode, position) for position, (mode, _) in enumerate(AS_GIVEN)
    ]
    assert {row["case_order"] for row in found} == {"given"}
    command("budget=smoke", "model=pointwise", "mode=eager", "study=alone")
    (row,) = rows(results, "alone")
    assert (row["case_order"], row["position"]) == (None, None)


# What is reused, and what is measured again


def reusing(count: int, of: int) -> list[str]:
    return [f"reusing {count} of {of} cases; resume=false measures them again"]


def test_replicates_are_processes_of_one_case_and_missing_ones_are_added(
    command: Command, world: World, results: Path
) -> None:
    """They differ only in the order of rounds."""
    command(*SWEEP, "replicates=2", "seed=7")
    assert {plan.seed for _, plan in world.measured} == {7}
    assert len({case for case, _ in world.measured}) == 2
    assert command(*SWEEP, "replicates=3", "seed=7") == reusing(4, of=6)
    assert command(*SWEEP, "replicates=1", "seed=7") == reusing(2, of=2)
    found = rows(results)
    assert sorted((row["mode"], row["replicate"]) for row in found) == [
        (mode, number) for mode in ("eager", "no_grad") for number in range(3)
    ]
    assert len({row["case_id"] for row in found}) == 2
    replicates = derived(results / "main")[["replicates", "replicates_not_ok"]]
    assert replicates.to_numpy().tolist() == [[3, 0]] * 2


def test_reasons_for_measuring_again_are_counted(
    command: Command, world: World, results: Path
) -> None:
    command(*SWEEP[:-1], "mode=eager", "shape.ops=1")
    command(*SWEEP[:-1], "mode=no_grad", "budget=quick", "compile_cache=warm")
    world.status = Status.TIMEOUT
    command(*SWEEP[:-1], "mode=amp", "budget=quick", "shape.ops=1")
    world.status = Status.OK
    command(*SWEEP[:-1], "mode=amp", "budget=quick", "shape.ops=16")
    every = [*SWEEP, "mode=eager,no_grad,amp", "shape.ops=1,16", "budget=quick"]
    first, *others = command(*every)
    assert [first] == reusing(1, of=6)
    assert sorted(others) == [
        "measuring 1 again: compile_cache was warm",
        "measuring 1 again: only budget=smoke so far",
        "measuring 1 again: status was timeout",
    ]
    world.torch_version = "2.14.0"
    assert command(*every) == ["measuring 6 again: torch changed"]
    assert command(*every) == reusing(6, of=6)
    assert len(rows(results)) == 4 + 5 + 6
    assert world.measured == []


# Which torch, and ends


def test_an_untested_torch_is_named_before_anything_is_measured(run: Cli, world: World) -> None:
    world.torch_version = "2.16.0+cpu"
    warning, heading, *_ = run(*SWEEP).out.splitlines()
    assert warning.startswith("warning: ")
    assert "torch 2.16.0+cpu" in heading


def test_the_table_is_shown_also_where_a_signal_ends_the_confirming(
    run: Cli, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.slower = {"compile": 0.5, "no_grad": 0.9}
    tables: list[Sequence[str]] = []

    def stop(run_ids: Sequence[str], jobs: object) -> None:
        assert len(run_ids) == 2
        raise KeyboardInterrupt(signal.SIGTERM)

    def show_table(study: Path, run_ids: Sequence[str], *others: object) -> int:
        tables.append(run_ids)
        return 1

    monkeypatch.setattr(sweep, "confirm", stop)
    monkeypatch.setattr(running, "show", show_table)
    answer = run(*MODES)
    assert (answer.status, [len(each) for each in tables]) == (143, [3])
    assert "stopped after 3 of 3" in answer.out

"""What a sweep measures, in which order, what it reuses and what it prints.

Children are replaced by a stand-in with immediate results, so only the sweep is tested.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from modescope.analysis.after_run import unconfirmed
from modescope.analysis.derive.registry import derived
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request, resolve
from modescope.bench.sweep import isolation, main, prepare
from tests.helpers import composing
from tests.helpers.commands import PROGRESS, Answer, Ask, Cli, last_of_each, rows
from tests.helpers.made_up_records import CPU
from tests.helpers.stored_rows import rows_in
from tests.helpers.worlds import World

SWEEP = ["-m", "budget=smoke", "model=pointwise", "shape=small", "mode=eager,no_grad"]
THEIRS = ["-m", "budget=smoke", "model=custom", "mode=eager", "model.target=net:build"]
MEASURING = re.compile("(?:reusing|measuring) .*")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(isolation, "call", made.call)
    return made


Command = Callable[..., list[str]]


@cache
def _composed(words: tuple[str, ...]) -> list[Request]:
    """Which takes longer than the rest of a command; those of this file are few."""
    return composing.requests(words)


@pytest.fixture
def run(world: World, results: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """A command without memory of earlier ones, composed in 10 ms; its table is left out."""

    def call(*arguments: str) -> Answer:
        prepare._hosts.clear()
        requests = [
            replace(
                each,
                settings=replace(each.settings, results_dir=str(results)),
                sweep="-m" in arguments,
            )
            for each in _composed(tuple(word for word in arguments if word != "-m"))
        ]
        confirms = requests[0].settings.budget.name != "smoke"
        to_confirm = unconfirmed if confirms else lambda study, run_ids: ()
        return Answer(main.measure(requests, lambda *_: 0, to_confirm), *capsys.readouterr())

    yield call
    prepare._hosts.clear()


@pytest.fixture
def command(run: Cli, world: World) -> Command:
    """Runs a command; returns its lines about reuse."""

    def call(*arguments: str) -> list[str]:
        world.measured.clear()
        answer = run(*last_of_each(*arguments))
        assert all(PROGRESS.fullmatch(line) for line in answer.err.splitlines()), answer.err
        return MEASURING.findall(answer.out)

    return call


# Stopping early, confirming, progress

MODES = ["-m", "budget=quick", "model=pointwise", "shape=small", "mode=eager,no_grad,compile"]
ALONE = ["budget=quick", "model=pointwise", "shape=small", "mode=compile"]


@pytest.mark.parametrize(
    ("arguments", "half_width"),
    [
        (MODES, 0.05),
        ([*MODES, "budget=standard"], 0.05),
        ([*MODES, "budget=thorough"], None),
        ([*MODES, "budget.half_width=0.01"], None),
        ([*MODES, "replicates=2"], None),
        (ALONE, None),
    ],
)
def test_only_a_sweep_of_single_processes_may_stop_early(
    command: Command, world: World, arguments: list[str], half_width: float | None
) -> None:
    command(*arguments)
    assert {plan.budget.slow_half_width for _, plan in world.measured} == {half_width}


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
    "arguments",
    [
        [*MODES, "budget=smoke"],
        [*MODES, "replicates=2"],
        [*MODES, "mode=eager,no_grad"],
        ALONE,
    ],
)
def test_nothing_else_is_measured_once_more(
    command: Command, world: World, results: Path, arguments: list[str]
) -> None:
    world.slower = {"compile": 0.5, "no_grad": 0.9}
    command(*arguments)
    assert len(world.measured) == len(rows(results))


def test_without_a_terminal_each_finished_case_is_a_line(run: Cli, world: World) -> None:
    world.slower = {"compile": 1.5, "no_grad": 0.9}
    lines = run(*MODES, "order=given").err.splitlines()
    assert [line.partition("  ")[0] for line in lines] == ["1/3", "2/3", "3/3"]
    assert [line.split()[-3:] for line in lines] == [
        ["equivalent,", "0", "s"], ["faster,", "0", "s"], ["slower,", "0", "s"]
    ]  # fmt: skip
    assert ["no_grad" in line for line in lines] == [False, True, False]
    assert run(*ALONE).err == ""


# Order

SIZES = "shape.ops=1,2,3"


def modes_and_sizes(world: World) -> list[tuple[str, int]]:
    return [(case.variant.mode.name, case.shape["ops"]) for case, _ in world.measured]


def as_given() -> list[tuple[str, int]]:
    return [(mode, ops) for mode in ("eager", "no_grad") for ops in (1, 2, 3)]


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


@pytest.mark.parametrize(
    ("words", "left_out"),
    [
        (["mode=eager,no_grad"], True),
        (["mode=eager,compile"], False),
        (["mode=eager", "baseline.mode=compile"], False),
        (["mode=eager", "baseline.mode=none"], True),
        (["mode=eager", "phase=train", "model=mlp"], False),
    ],
)
def test_the_compiler_is_imported_only_where_something_compiles(
    words: list[str], left_out: bool, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[bool] = set()
    monkeypatch.setattr(isolation, "start", lambda compiler: seen.add(not compiler))
    command("-m", "budget=smoke", "model=pointwise", "shape=small", *words)
    assert seen == {left_out}


def test_the_order_is_random_and_recorded(command: Command, world: World, results: Path) -> None:
    orders = []
    for seed in (0, 0, 1):
        command(*SWEEP, SIZES, f"seed={seed}", "resume=false")
        orders.append(modes_and_sizes(world))
    first, same, other = orders
    assert sorted(first) == sorted(as_given())
    assert first == same
    assert len({tuple(order) for order in (first, other, as_given())}) == 3
    stored = rows(results)[:6]  # the oldest: those of the first command
    assert [row["position"] for row in stored] == list(range(6))
    assert [row["case_order"] for row in stored] == ["random"] * 6
    assert [row["mode"] for row in stored] == [mode for mode, _ in first]


def test_order_given_is_followed(command: Command, world: World, results: Path) -> None:
    command(*SWEEP, SIZES, "order=given")
    assert modes_and_sizes(world) == as_given()
    assert {row["case_order"] for row in rows(results)} == {"given"}
    assert [row["position"] for row in rows(results)] == list(range(6))


def test_positions_count_reused_cases(command: Command, results: Path) -> None:
    command(*SWEEP[:-1], "mode=eager", "order=given", "shape.ops=1,2")
    command(*SWEEP, "order=given", "shape.ops=1,2")
    positions = {(row["mode"], row["position"]) for row in rows(results)}
    assert positions == {("eager", 0), ("eager", 1), ("no_grad", 2), ("no_grad", 3)}


def test_a_single_case_has_no_position(command: Command, results: Path) -> None:
    command("budget=smoke", "model=pointwise", "mode=eager")
    (row,) = rows(results)
    assert (row["case_order"], row["position"]) == (None, None)


# Replicates


def test_replicates_are_processes_of_one_case(
    command: Command, world: World, results: Path
) -> None:
    command("-m", "budget=smoke", "model=pointwise", "mode=eager", "replicates=3")
    stored = rows(results)
    assert sorted(row["replicate"] for row in stored) == [0, 1, 2]
    assert len({row["case_id"] for row in stored}) == 1
    assert len({row["run_id"] for row in stored}) == 3
    assert sorted(plan.replicate for _, plan in world.measured) == [0, 1, 2]
    (row,) = derived(results / "main").to_dict("records")
    assert (row["replicates"], row["replicates_not_ok"]) == (3, 0)


def test_missing_replicates_are_added(command: Command, results: Path) -> None:
    command(*SWEEP, "replicates=2")
    assert command(*SWEEP, "replicates=3") == [
        "reusing 4 of 6 cases; resume=false measures them again"
    ]
    assert len(rows(results)) == 6
    assert command(*SWEEP, "replicates=1") == [
        "reusing 2 of 2 cases; resume=false measures them again"
    ]
    found = sorted((row["mode"], row["replicate"]) for row in rows(results))
    assert found == [(mode, number) for mode in ("eager", "no_grad") for number in range(3)]


def test_replicates_differ_only_in_the_order_of_rounds(command: Command, world: World) -> None:
    command(*SWEEP, "replicates=2", "seed=7")
    assert {plan.seed for _, plan in world.measured} == {7}
    assert len({case for case, _ in world.measured}) == 2


# What is measured again, and why

AGAIN: list[tuple[dict[str, str], str]] = [
    ({"torch_version": "2.14.0"}, "torch changed"),
    ({"device_name": "Another CPU"}, "the device changed"),
    ({"cpu_capability": "AVX2"}, "the instruction set that torch uses changed"),
    ({"source_id": "edited"}, "the source of modescope changed"),
]


@pytest.mark.parametrize(("change", "why"), AGAIN, ids=[why for _, why in AGAIN])
def test_cases_are_measured_again_in_another_environment(
    command: Command, world: World, results: Path, change: dict[str, str], why: str
) -> None:
    assert command(*SWEEP) == []
    for name, value in change.items():
        setattr(world, name, value)
    assert command(*SWEEP) == [f"measuring 2 again: {why}"]
    assert command(*SWEEP) == ["reusing 2 of 2 cases; resume=false measures them again"]
    assert len(rows(results)) == 4


def test_cases_are_measured_again_for_a_larger_budget(command: Command) -> None:
    command(*SWEEP[:-1], "mode=eager")
    assert command(*SWEEP, "budget=quick") == ["measuring 1 again: only budget=smoke so far"]
    assert command(*SWEEP) == ["reusing 2 of 2 cases; resume=false measures them again"]


def test_cases_are_measured_again_for_another_compiler_cache(command: Command) -> None:
    command(*SWEEP, "compile_cache=warm")
    assert command(*SWEEP) == ["measuring 2 again: compile_cache was warm"]


@pytest.mark.parametrize("name", ["profile", "memory"])
def test_a_row_without_a_requested_pass_is_not_reused(
    name: str, command: Command, results: Path
) -> None:
    command(*SWEEP, f"{name}=false")
    assert {row[name] for row in rows(results)} == {False}
    assert command(*SWEEP) == [f"measuring 2 again: measured with {name}=false"]
    reused = ["reusing 2 of 2 cases; resume=false measures them again"]
    assert command(*SWEEP) == command(*SWEEP, f"{name}=false") == reused


@pytest.mark.full
def test_reasons_for_measuring_again_are_counted(command: Command) -> None:
    eager, no_grad, new = ([*SWEEP[:-1], f"mode={name}"] for name in ("eager", "no_grad", "amp"))
    command(*eager, "shape.ops=1,2")
    command(*no_grad, "budget=quick", "compile_cache=warm")
    command(*new, "budget=quick")
    assert command(
        *SWEEP, "mode=eager,no_grad,amp,compile", "shape.ops=1,2,16", "budget=quick"
    ) == [
        "reusing 1 of 12 cases; resume=false measures them again",
        "measuring 2 again: only budget=smoke so far",
        "measuring 1 again: compile_cache was warm",
    ]


def test_an_edited_model_is_measured_again(
    command: Command, world: World, results: Path, tmp_path: Path
) -> None:
    world.model_file = tmp_path / "net.py"
    world.model_file.write_text("width = 4")
    command(*THEIRS)
    assert command(*THEIRS) == ["reusing 1 of 1 cases; resume=false measures them again"]
    world.model_file.write_text("width = 8")
    assert command(*THEIRS) == ["measuring 1 again: the model's source changed"]
    assert len(rows(results)) == 2


@pytest.mark.parametrize("status", ["failed", "timeout"])
def test_failed_cases_are_tried_again_by_default(
    command: Command, world: World, results: Path, status: str
) -> None:
    world.status, world.reason = status, "not today"
    command(*SWEEP)
    assert command(*SWEEP) == [f"measuring 2 again: status was {status}"]
    assert command(*SWEEP, "retry=false") == [
        "reusing 2 of 2 cases; resume=false measures them again"
    ]
    assert world.measured == []
    assert len(rows(results)) == 4


def test_one_sweep_may_scale_several_models(command: Command, world: World) -> None:
    command("-m", "budget=smoke", "model=pointwise,mlp", "mode=eager", "shape.scale=1,5")
    sizes = {
        (case.model.name, case.shape["ops"]) for case, _ in world.measured if "ops" in case.shape
    }
    assert sizes == {("pointwise", 1), ("pointwise", 5)}
    batches = {case.shape["batch"] for case, _ in world.measured if case.model.name == "mlp"}
    assert batches == {1, 5}


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["model=pointwise", "shape.scale=2", "shape.ops=3"], "shape.scale and shape.ops "),
        (["model=mlp", "shape.scale=2", "shape.batch=2"], "shape.scale and shape.batch "),
        (["model=mlp", "shape.scale=0"], "shape.batch=0: "),
    ],
)
def test_an_invalid_scale_is_refused(ask_quickly: Ask, arguments: list[str], culprit: str) -> None:
    (request,) = ask_quickly(*arguments)
    with pytest.raises(UsageError, match=f"^{re.escape(culprit)}"):
        resolve(request, lambda device: CPU)


def test_only_variables_that_change_torch_are_recorded(
    run: Cli, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        *("TORCH_LOGS", "OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY", "LD_PRELOAD"),
        *("CUDA_VISIBLE_DEVICES", "TORCH_HOME", "MY_SECRET"),
    ):
        monkeypatch.setenv(name, "1")
    run(*SWEEP[1:-1], "mode=eager")
    (row,) = rows(results)
    kept = json.loads(row["variables"])
    assert {"TORCH_LOGS", "OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY", "LD_PRELOAD"} <= set(kept)
    assert not {"MY_SECRET", "PATH", "CUDA_VISIBLE_DEVICES", "TORCH_HOME"} & set(kept)


# Which torch


@pytest.mark.parametrize(("version", "warned"), [("2.15.0+cpu", []), ("2.16.0+cpu", [0])])
def test_an_untested_torch_is_named_before_anything_is_measured(
    run: Cli, world: World, version: str, warned: list[int]
) -> None:
    world.torch_version = version
    lines = run(*SWEEP).out.splitlines()
    assert [n for n, line in enumerate(lines) if line.startswith("warning: ")] == warned
    assert f"torch {version}" in lines[len(warned)]

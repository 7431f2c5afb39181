"""Whole commands: the order of processes, what is reused, statuses, sentences.

The processes of both sides are stand-ins that live in this one, each on a machine of its own where
every case ends at once.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.command_line import collect
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request
from modescope.bench.sweep import isolation, prepare
from modescope.bench.versus import command
from modescope.bench.versus.states import State
from modescope.bench.versus.worker import Side
from tests.helpers import composing
from tests.helpers.commands import Answer, Row, beside_progress, rows
from tests.helpers.stored_rows import change
from tests.helpers.worlds import World

MODES = ("eager", "no_grad")
SWEEP = ("-m", f"mode={','.join(MODES)}", "budget=quick", "model=custom", "model.target=net:build")
WHAT_IS_MEASURED = ("model.target=net:build", "model=custom", "budget=quick")


@dataclass
class Bench:
    """Both sides' machines, and every process that was measured, in order."""

    worlds: dict[str, World]
    turns: list[tuple[str, str, int]] = field(default_factory=list)  # side, mode, replicate
    stop_after: int | None = None


class HereProcess:
    """Answers as `bench.versus.processes.Process` does."""

    def __init__(self, state: State, bench: Bench) -> None:
        self.state, self._bench, self._side = state, bench, Side()

    def ask(self, question: str, *arguments: Any) -> None:
        self._asked = (question, arguments)

    def answer(self, on_phase: Callable[[str], None] = lambda phase: None) -> Any:
        question, arguments = self._asked
        prepare._hosts.clear()
        world = self._bench.worlds[self.state.side]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(isolation, "call", world.call)
            if question == "measure":
                self._count(*arguments)
            try:
                return getattr(self._side, question)(on_phase, *arguments)
            except UsageError as error:
                raise UsageError(f"{self.state}: {error}") from None

    def _count(self, number: int, place: object) -> None:
        if len(self._bench.turns) == self._bench.stop_after:
            raise KeyboardInterrupt
        job = self._side.jobs[number]
        mode = job.case.variant.mode.name
        self._bench.turns.append((self.state.side, mode, job.plan.replicate))


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The user's code on both sides; they are in the current folder."""
    monkeypatch.chdir(tmp_path)
    made = {side: tmp_path / f"{side}-code" for side in ("old", "new")}
    for side, folder in made.items():
        folder.mkdir()
        (folder / "net.py").write_text(side)
    return made


@cache
def _collected(words: tuple[str, ...]) -> list[Request]:
    """Hydra takes three quarters of a command: a sweep is composed without it."""
    first, *rest = words
    return composing.requests(rest) if first == "-m" else collect(words)


@pytest.fixture
def bench(
    folders: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bench]:
    made = Bench({side: World(model_file=folder / "net.py") for side, folder in folders.items()})

    @contextmanager
    def started(state: State) -> Iterator[HereProcess]:
        yield HereProcess(state, made)

    monkeypatch.setattr(command, "collect", lambda words: list(_collected(tuple(words))))
    monkeypatch.setattr(command, "started", started)
    yield made
    prepare._hosts.clear()


@pytest.fixture
def interpreters(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three that can measure, in the current folder."""
    for name in ("a", "b", "c"):
        Path(name).touch()
        Path(name).chmod(0o755)
    monkeypatch.setattr("modescope.bench.versus.interpreters.problem", lambda python: None)


Versus = Callable[..., Answer]


@pytest.fixture
def versus(
    bench: Bench, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Versus:
    """Types a command between the two folders, unless other sides are named."""

    def type_(*settings: str, options: Sequence[str] = (), **sides: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["versus"])
        bench.turns.clear()
        named = {"old": "dir:old-code", "new": "dir:new-code", **sides}
        words = [*(f"{side}={state}" for side, state in named.items()), *options]
        status = command.main([*words, "--", *settings])
        return Answer(status, *capfd.readouterr())

    return type_


def of_sides(study: str = "main") -> dict[str, list[Row]]:
    return {side: rows(Path("results"), f"{study}-{side}") for side in ("old", "new")}


def blocks(row: list[Row]) -> list[tuple[str, int, int]]:
    """Mode, replicate and block of each row."""
    return sorted((each["mode"], each["replicate"], each["versus_block"]) for each in row)


# Turns


def test_both_sides_take_turns_and_are_compared(versus: Versus, bench: Bench) -> None:
    answer = versus(*SWEEP, "replicates=4")
    assert (answer.status, beside_progress(answer.err)) == (0, "")
    assert Counter(bench.turns) == Counter(
        (side, mode, number) for side in ("old", "new") for mode in MODES for number in range(4)
    )
    partners = zip(bench.turns[::2], bench.turns[1::2], strict=True)
    assert all(one[1:] == other[1:] and one[0] != other[0] for one, other in partners)
    assert [turn[2] for turn in bench.turns] == sorted([0, 1, 2, 3] * 4)
    assert "Gates: exact, speedup (beyond 1 %), latency (beyond 2 %)." in answer.out
    assert "not measured in turns" not in answer.out
    assert "model_source_id" in answer.out
    assert "old  dir:old-code: torch 2.13.0" in answer.out


def test_records_say_what_took_turns(versus: Versus, bench: Bench) -> None:
    versus(*SWEEP, "replicates=2")
    sides = of_sides()
    for side, found in sides.items():
        assert {row["versus_side"] for row in found} == {side}
        assert {row["versus_state"] for row in found} == {f"dir:{side}-code"}
        assert {row["study"] for row in found} == {f"main-{side}"}
        assert {row["case_order"] for row in found} == {"random"}
        assert blocks(found) == [(mode, n, n) for mode in MODES for n in range(2)]
        assert all(f"study=main-{side}" in row["command"] for row in found)
    positions = [row["position"] for found in sides.values() for row in found]
    assert sorted(positions) == list(range(8))
    sources = [{row["model_source_id"] for row in found} for found in sides.values()]
    assert len(sources[0] | sources[1]) == 2


def test_the_study_is_named_by_the_user(versus: Versus, bench: Bench) -> None:
    versus(*SWEEP, "study=nightly", "results_dir=elsewhere")
    assert [path.name for path in sorted(Path("elsewhere").iterdir())] == [
        "nightly-new", "nightly-old",
    ]  # fmt: skip


def test_a_single_case_without_m(versus: Versus, bench: Bench) -> None:
    answer = versus("mode=eager", "replicates=3", *WHAT_IS_MEASURED)
    assert answer.status == 0, answer.err
    assert len(bench.turns) == 6


# The answer


@pytest.mark.parametrize(
    ("slower", "status", "text"),
    [("new", 1, "Regression: 1 of 2 rows fails"), ("old", 0, "1 faster"), (None, 0, "2 no worse")],
)
def test_a_planted_change_decides_the_status(
    slower: str | None, status: int, text: str, versus: Versus, bench: Bench
) -> None:
    if slower:
        bench.worlds[slower].slower = {"no_grad": 1.05}
    answer = versus(*SWEEP, "replicates=5")
    assert (answer.status, beside_progress(answer.err)) == (status, "")
    assert text in answer.out


def test_options_of_the_comparison_are_passed_on(versus: Versus, bench: Bench) -> None:
    bench.worlds["new"].slower = {"no_grad": 1.05}
    options = ("--latency-margin", "20%", "--margin", "20%", "--json", "changes.json")
    assert versus(*SWEEP, "replicates=5", options=options).status == 0
    assert Path("changes.json").is_file()


def test_a_case_that_fails_on_the_new_side_alone_is_a_regression(
    versus: Versus, bench: Bench
) -> None:
    bench.worlds["new"].status, bench.worlds["new"].reason = "failed", "not today"
    answer = versus(*SWEEP)
    assert answer.status == 1
    assert "2 no longer ok" in answer.out


def test_the_same_state_on_both_sides_is_named(versus: Versus, bench: Bench) -> None:
    theirs = bench.worlds["new"].model_file
    bench.worlds["new"].model_file = bench.worlds["old"].model_file
    answer = versus(*SWEEP, "replicates=3", new="dir:old-code")
    assert answer.status == 0, answer.err
    assert "the same state on both sides" in answer.out
    assert "the same code on both sides" in answer.out
    bench.worlds["new"].model_file = theirs
    answer = versus(*SWEEP, "replicates=3")
    assert answer.status == 0, answer.err
    assert "the same state" not in answer.out


@pytest.mark.parametrize(("new", "same"), [("./a", True), ("./b", False)])
def test_two_interpreters_are_not_the_same_state(
    versus: Versus, bench: Bench, interpreters: None, new: str, same: bool
) -> None:
    """Packages that an environment does not record may differ."""
    bench.worlds["new"].model_file = bench.worlds["old"].model_file
    answer = versus(*SWEEP, old="./a", new=new)
    assert answer.status == 0, answer.err
    assert ("the same state on both sides" in answer.out) is same


# Reuse


def test_an_interrupted_versus_continues_and_loses_one_process(
    versus: Versus, bench: Bench
) -> None:
    bench.stop_after = 5  # two pairs, and half of one
    stopped = versus(*SWEEP, "replicates=3")
    assert (stopped.status, beside_progress(stopped.err)) == (130, "")
    assert "the same command continues" in stopped.out
    half = bench.turns[4]
    bench.stop_after = None
    answer = versus(*SWEEP, "replicates=3")
    assert "reusing 4 of 12 processes" in answer.out
    assert "measuring 1 again on both sides: the two sides were not measured in turns" in answer.out
    assert len(bench.turns) == 8
    assert {turn[1:] for turn in bench.turns[:4]} >= {half[1:]}
    assert "not measured in turns (versus" not in answer.out
    again = versus(*SWEEP, "replicates=3")
    assert "reusing 12 of 12 processes" in again.out
    assert bench.turns == []
    assert again.status == answer.status == 0


def test_more_replicates_are_added(versus: Versus, bench: Bench) -> None:
    versus(*SWEEP, "replicates=3")
    versus(*SWEEP, "replicates=5")
    assert {turn[2] for turn in bench.turns} == {3, 4}
    assert len(bench.turns) == 8


def test_a_changed_side_is_measured_with_its_partner(
    versus: Versus, bench: Bench, folders: dict[str, Path]
) -> None:
    versus(*SWEEP, "replicates=5")
    (folders["new"] / "net.py").write_text("changed")
    answer = versus(*SWEEP, "replicates=3")
    assert "measuring 6 again on both sides: new: the model's source changed" in answer.out
    assert Counter(side for side, *_ in bench.turns) == {"old": 6, "new": 6}
    found = of_sides()
    assert blocks(found["new"])[-1] == blocks(found["old"])[-1]
    assert {block for *_, block in blocks(found["new"])} == set(range(8))
    assert "Gates: exact, speedup" in answer.out  # only what took turns is compared
    assert "OLD: 4 processes are left out, whose block is on one side only" in answer.out


def test_going_back_to_an_earlier_state_measures_again(
    versus: Versus, bench: Bench, folders: dict[str, Path]
) -> None:
    for text in ("first", "second"):
        (folders["new"] / "net.py").write_text(text)
        versus(*SWEEP)
    (folders["new"] / "net.py").write_text("first")
    answer = versus(*SWEEP)
    assert "the two sides were not measured in turns" in answer.out
    assert len(bench.turns) == 4


def test_rows_of_another_interpreter_are_not_reused(
    versus: Versus, bench: Bench, interpreters: None
) -> None:
    versus(*SWEEP, old="./a", new="./b")
    answer = versus(*SWEEP, old="./c", new="./b")
    assert (answer.status, beside_progress(answer.err)) == (0, "")
    assert "measuring 2 again on both sides: old: the state was ./a" in answer.out
    assert len(bench.turns) == 4
    assert [row["versus_state"] for row in of_sides()["old"]].count("./c") == 2
    again = versus(*SWEEP, old="./c", new="./b")
    assert "reusing 4 of 4 processes" in again.out
    assert bench.turns == []


def test_rows_of_ordinary_sweeps_are_not_reused(versus: Versus, bench: Bench) -> None:
    versus(*SWEEP)
    assert len(bench.turns) == 4
    for side in ("old", "new"):
        for file in (Path("results") / f"main-{side}" / "rows").iterdir():
            change(file, versus_block=None)
    versus(*SWEEP)
    assert len(bench.turns) == 4


def test_resume_false_measures_everything(versus: Versus, bench: Bench) -> None:
    versus(*SWEEP)
    versus(*SWEEP, "resume=false")
    assert len(bench.turns) == 4
    assert {row["versus_block"] for row in of_sides()["old"]} == {0, 1}


def test_a_failed_process_is_measured_again_with_its_partner(versus: Versus, bench: Bench) -> None:
    bench.worlds["new"].status, bench.worlds["new"].reason = "timeout", "too slow"
    versus(*SWEEP)
    bench.worlds["new"].status = "ok"
    answer = versus(*SWEEP)
    assert "measuring 2 again on both sides: new: status was timeout" in answer.out
    assert answer.status == 0
    assert len(bench.turns) == 4


# Mistakes

GIVEN = ("--gate", "exact")


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        (SWEEP, {"old": ""}, "old= names nothing"),
        (SWEEP, {"old": "nowhere/python"}, "old=nowhere/python: no such interpreter"),
        (SWEEP, {"new": "dir:nowhere"}, "new=dir:nowhere: there is no such folder"),
        (SWEEP, {"new": "dir:other-code"}, "is imported from"),
        (SWEEP, {"options": ("--gate", "exct")}, "--gate exct: no such gate"),
        (SWEEP, {"options": ("--margin",)}, "--margin"),
        (SWEEP, {"options": ("extra",)}, "expected two studies"),
        (SWEEP, {"options": ("-m",)}, "-m stands before --"),
        (SWEEP[1:], {}, "-m"),
        (("-m", "mode=complie"), {}, "did you mean compile?"),
        (("mode=cuda-graph", *WHAT_IS_MEASURED), {}, "old=dir:old-code: mode=cuda-graph: a CUDA"),
        (("mode=eager", "threads=99", *WHAT_IS_MEASURED), {}, "threads=99: this process may use"),
        (("mode=eager",), {}, "model=mlp comes with modescope"),
    ],
)
def test_mistakes_end_with_a_sentence_and_status_2(
    settings: tuple[str, ...],
    change: dict[str, Any],
    message: str,
    versus: Versus,
    bench: Bench,
    tmp_path: Path,
) -> None:
    (tmp_path / "other-code").mkdir()
    answer = versus(*settings, **change)
    assert answer.status == 2
    assert message in answer.err
    assert answer.err.startswith("error: ")
    assert "Traceback" not in answer.err
    assert bench.turns == []
    change["options"] = (*change.get("options", ()), "--bisect")
    assert versus(*settings, **change).status == 125


def test_a_missing_side_ends_with_status_2(capfd: pytest.CaptureFixture[str]) -> None:
    assert command.main(["new=dir:.", "--", "-m", "mode=eager"]) == 2
    assert capfd.readouterr().err.startswith("error: old= is missing; name two interpreters")


def test_a_fault_of_our_own_is_not_taken_for_a_regression(
    versus: Versus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("modescope.bench.versus.measuring.planned", fails)
    answer = versus(*SWEEP)
    assert answer.status == 2
    assert "ZeroDivisionError" in answer.err


def test_sides_that_mean_different_cases_are_refused(
    versus: Versus, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Side, "prepare", _on_another_device(Side.prepare))
    answer = versus(*SWEEP)
    assert answer.status == 2
    assert "set the device, as in device=cpu" in answer.err


def _on_another_device(prepare: Callable[..., Any]) -> Callable[..., Any]:
    from dataclasses import replace

    def prepared(self: Side, *arguments: Any) -> Any:
        answer = prepare(self, *arguments)
        if "new" not in answer.jobs[0].plan.study:
            return answer
        other = [replace(job, case=replace(job.case, device="cuda")) for job in answer.jobs]
        return replace(answer, jobs=tuple(other))

    return prepared


def test_help_names_the_sides(capfd: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--help"]) == 0
    assert "old=git:main" in capfd.readouterr().out

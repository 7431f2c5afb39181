"""Whole commands: the order of processes, what is reused, statuses.

The processes of both sides are stand-ins that live in this one, each on a machine of its own where
every case ends at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.command_line import collect
from modescope.bench.records.outcomes import Status
from modescope.bench.resolve import Request
from modescope.bench.sweep import isolation, prepare
from modescope.bench.versus import __main__ as command
from modescope.bench.versus import states
from modescope.bench.versus.__main__ import turns
from modescope.bench.versus.sides import Worker
from modescope.bench.versus.states import CodeState
from tests.helpers import composing
from tests.helpers.commands import Answer, Row, rows
from tests.helpers.worlds import World

MODES = ("eager", "no_grad")
MODEL = ("budget=quick", "model=custom", "model.target=net:build")
SWEEP = ("-m", f"mode={','.join(MODES)}", *MODEL)
IN_TURNS = "Gates: exact, speedup (beyond 1 %), latency (beyond 2 %)."

# The order


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("cases", "blocks"), [(1, 1), (1, 6), (4, 3), (5, 4)])
def test_partners_follow_each_other_and_each_side_begins_equally_often(
    cases: int, blocks: int, seed: int
) -> None:
    named = [f"case {case}" for case in range(cases) for _ in range(blocks)]
    replicates = [*range(blocks)] * cases
    order = turns(named, replicates, seed, "random")
    first, second = order[::2], order[1::2]
    assert sorted(first + second) == sorted(
        (job, side) for job in range(cases * blocks) for side in ("old", "new")
    )
    assert all(one[0] == other[0] for one, other in zip(first, second, strict=True))
    assert [replicates[job] for job, _ in order] == sorted(replicates * 2)
    keys: list[tuple[Sequence[object], int]] = [(replicates, cases), (named, blocks)]
    for key, count in keys:
        old = Counter(key[job] for job, side in first if side == "old")
        assert all(abs(2 * old[group] - count) <= 1 for group in key)


def test_the_order_is_random_and_follows_the_seed() -> None:
    cases, replicates = [*"abcdef"] * 4, [n for n in range(4) for _ in range(6)]
    orders = [turns(cases, replicates, seed, "random") for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    begins = [turns("abcd", [0] * 4, seed, "given")[::2] for seed in range(60)]
    sides = {tuple(side for _, side in each) for each in begins}
    assert len(sides) == 6  # every way in which two of four cases begin with the old side
    given = turns("aabbcc", [0, 1] * 3, 0, "given")
    assert [job for job, _ in given] == [0, 0, 2, 2, 4, 4, 1, 1, 3, 3, 5, 5]


# Commands


@dataclass
class Bench:
    """Both sides' machines, and every process that was measured, in order."""

    worlds: dict[str, World]
    turns: list[tuple[str, str, int]] = field(default_factory=list)  # side, mode, replicate
    stop_after: int | None = None


class HereSide:
    """Answers as `bench.versus.sides.SideProcess` does."""

    def __init__(self, state: CodeState, bench: Bench) -> None:
        self.state, self._bench, self._worker = state, bench, Worker()

    def ask(self, method: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        return partial(self._answer, method, *arguments)

    def _answer(self, method: Callable[..., Any], *arguments: Any) -> Any:
        prepare._hosts.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(isolation, "call", self._bench.worlds[self.state.side].call)
            if method is Worker.measure:
                self._count(arguments[0])
            return method(self._worker, *arguments)

    def _count(self, number: int) -> None:
        if len(self._bench.turns) == self._bench.stop_after:
            raise KeyboardInterrupt
        job = self._worker._jobs[number]
        mode = job.case.variant.mode.name
        self._bench.turns.append((self.state.side, mode, job.plan.replicate))


@cache
def _collected(words: tuple[str, ...]) -> list[Request]:
    """Hydra takes three quarters of a command: a sweep is composed without it."""
    first, *rest = words
    return composing.requests(rest) if first == "-m" else collect(words)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """The user's code of both sides is in two folders of the current one."""
    monkeypatch.chdir(tmp_path)
    worlds = {}
    for side in ("old", "new"):
        file = tmp_path / f"{side}-code" / "net.py"
        file.parent.mkdir()
        file.write_text(side)
        worlds[side] = World(model_file=file)
    made = Bench(worlds)

    @contextmanager
    def start(state: CodeState) -> Iterator[HereSide]:
        yield HereSide(state, made)

    monkeypatch.setattr(command, "collect", lambda words: list(_collected(tuple(words))))
    monkeypatch.setattr(command, "start", start)
    yield made
    prepare._hosts.clear()


Versus = Callable[..., Answer]


@pytest.fixture
def versus(bench: Bench, capfd: pytest.CaptureFixture[str]) -> Versus:
    """Types a command between the two folders, unless other sides are named."""

    def type_(*settings: str, options: Sequence[str] = (), **sides: str) -> Answer:
        bench.turns.clear()
        named = {"old": "dir:old-code", "new": "dir:new-code", **sides}
        words = [*(f"{side}={state}" for side, state in named.items()), *options]
        return Answer(command.main([*words, "--", *settings]), *capfd.readouterr())

    return type_


def of_sides(study: str = "main") -> dict[str, list[Row]]:
    return {side: rows(Path("results"), f"{study}-{side}") for side in ("old", "new")}


def taken(found: list[Row]) -> set[tuple[str, int, int]]:
    """Mode, replicate and block of each row."""
    return {(each["mode"], each["replicate"], each["versus_block"]) for each in found}


def test_both_sides_take_turns_and_are_compared(versus: Versus, bench: Bench) -> None:
    answer = versus(*SWEEP, "replicates=4", "study=mine")
    assert (answer.status, answer.err.count("\n")) == (0, 16)  # a line for each process
    assert Counter(bench.turns) == Counter(
        (side, mode, number) for side in ("old", "new") for mode in MODES for number in range(4)
    )
    assert IN_TURNS in answer.out
    sides = of_sides("mine")
    for side, found in sides.items():
        columns = ("versus_side", "versus_state", "study")
        assert {tuple(row[name] for name in columns) for row in found} == {
            (side, f"dir:{side}-code", f"mine-{side}")
        }
        assert all(f"study=mine-{side}" in row["command"] for row in found)
        assert len({row["model_source_id"] for row in found}) == 1
        assert len(list(Path(f"results/mine-{side}/rows").iterdir())) == 1  # they are joined
    assert taken(sides["old"]) == taken(sides["new"])
    assert len({(replicate, block) for _, replicate, block in taken(sides["old"])}) == 4
    positions = [row["position"] for found in sides.values() for row in found]
    assert sorted(positions) == list(range(16))


@pytest.mark.parametrize(
    ("slower", "options", "status"),
    [("new", (), 1), ("old", (), 0), ("new", ("--latency-margin", "20%", "--margin", "20%"), 0)],
)
def test_a_planted_change_decides_the_status(
    slower: str, options: Sequence[str], status: int, versus: Versus, bench: Bench
) -> None:
    bench.worlds[slower].slower = {"no_grad": 1.05}
    assert versus(*SWEEP, "replicates=5", options=options).status == status


def test_a_failure_of_the_new_side_is_a_row_and_a_regression_and_is_tried_again(
    versus: Versus, bench: Bench
) -> None:
    bench.worlds["new"].status, bench.worlds["new"].reason = Status.FAILED, "not today"
    assert versus(*SWEEP).status == 1
    assert [row["status"] for row in of_sides()["new"]] == ["failed"] * 2
    bench.worlds["new"].status = Status.OK
    assert versus(*SWEEP).status == 0
    assert len(bench.turns) == 4


def test_an_interrupted_versus_continues_with_whole_pairs(versus: Versus, bench: Bench) -> None:
    bench.stop_after = 5  # two pairs, and half of one
    assert versus(*SWEEP, "replicates=3").status == 130
    half = bench.turns[4]
    bench.stop_after = None
    answer = versus(*SWEEP, "replicates=3")
    assert answer.status == 0
    assert len(bench.turns) == 8
    assert half[1:] in {turn[1:] for turn in bench.turns[:4]}
    assert "not measured in turns" not in answer.out
    assert versus(*SWEEP, "replicates=3").status == 0
    assert bench.turns == []
    versus(*SWEEP, "replicates=4")
    assert Counter(turn[2] for turn in bench.turns) == {3: 4}
    versus(*SWEEP, "resume=false")
    assert len(bench.turns) == 4


def test_a_changed_side_is_measured_again_with_its_partner(versus: Versus, bench: Bench) -> None:
    versus(*SWEEP, "replicates=3")
    file = bench.worlds["new"].model_file
    assert file is not None
    for text in ("changed", "new"):  # and back
        file.write_text(text)
        answer = versus(*SWEEP, "replicates=3")
        assert Counter(side for side, *_ in bench.turns) == {"old": 6, "new": 6}
        assert IN_TURNS in answer.out  # only what took turns is compared


def test_rows_of_another_state_are_not_reused(
    versus: Versus, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        states, "_interpreter", lambda side, typed: CodeState(side, typed, typed, typed, ())
    )
    versus(*SWEEP, old="a", new="b")
    for reused in (False, True):
        assert versus(*SWEEP, old="c", new="b").status == 0
        assert (bench.turns == []) is reused
    assert Counter(row["versus_state"] for row in of_sides()["old"]) == {"a": 2, "c": 2}


# Mistakes


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        (SWEEP, {"old": "nowhere/python"}, "old=nowhere/python: "),
        (SWEEP, {"new": "dir:other-code"}, "net:build must run the code of that folder"),
        (SWEEP, {"options": ("--gate", "exct")}, "--gate: 'exct': "),
        (SWEEP, {"options": ("old=b",)}, "old= is given 2 times"),
        (("mode=cuda-graph", *MODEL), {}, "mode=cuda-graph: "),
        (("mode=eager", "dry_run=true", *MODEL), {}, "leave out cluster and dry_run"),
    ],
)
def test_a_mistake_ends_with_one_line_and_status_2(
    settings: Sequence[str], change: dict[str, Any], message: str, versus: Versus, bench: Bench
) -> None:
    Path("other-code").mkdir()
    answer = versus(*settings, **change)
    assert (answer.status, answer.err.count("\n")) == (2, 1)
    assert answer.err.startswith("error: ")
    assert message in answer.err
    assert bench.turns == []
    change["options"] = (*change.get("options", ()), "--bisect")
    assert versus(*settings, **change).status == 125


def test_a_fault_of_our_own_is_not_taken_for_a_regression(
    versus: Versus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "turns", lambda *arguments: 1 / 0)
    answer = versus(*SWEEP)
    assert answer.status == 2
    assert "ZeroDivisionError" in answer.err

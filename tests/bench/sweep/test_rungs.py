"""Which folders the processes of a rung get, their turns, and how a case ends, by made-up ones."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.records.caches import CACHES, SAVED, variables_of
from modescope.bench.records.cases import Mode, Variant
from modescope.bench.records.columns.starting import Starts
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Ended, Result
from modescope.bench.records.starts import Asked, Start
from modescope.bench.sweep import starts
from modescope.bench.sweep.starts import Timed
from tests.helpers import made_up_records
from tests.helpers.made_up_records import COMPILE, case

AOT = replace(COMPILE, compile="aot")
AOTI = replace(COMPILE, name="aoti", compile="aoti")

FOUND, MADE = b"12345", b"1234567"
"""What a process that fills leaves in the compiler's folder, and what it saves."""


@dataclass(frozen=True)
class Process:
    """A process that was asked for: what for, its folders, and the files that it found in them."""

    asked: Asked
    caches: Path
    saved: Path
    found: tuple[str, ...]

    @property
    def side(self) -> str:
        if self.asked.fills:
            return "fill"
        return "mine" if self.asked.case.variant.mode.compiles else "other"


def says(**said: Any) -> Timed:
    return Timed(Start(**said), until_result_s=1.0, ended_s=2.0)


@dataclass
class World:
    """Stands for `starts.run`; `answers`: what the processes of each side say, in turn."""

    answers: dict[str, list[Timed]] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    saves: bool = True

    def run(self, description: Path, variables: dict[str, str], log: Path, limit: float) -> Timed:
        asked = pickle.loads(description.read_bytes())
        caches, saved = Path(variables["TORCHINDUCTOR_CACHE_DIR"]), Path(variables[SAVED])
        assert limit == asked.plan.timeout_s
        assert variables == {**variables_of(caches), SAVED: str(saved)}
        found = tuple(sorted(path.name for path in caches.iterdir()))
        process = Process(asked, caches, saved, found)
        self.processes.append(process)
        (caches / f"made-{len(self.processes)}").write_bytes(FOUND)
        if asked.fills and self.saves:
            (saved / "model").write_bytes(MADE)
        return self.answers.get(process.side, [says()] * 9).pop(0)

    def sides(self) -> list[str]:
        return [process.side for process in self.processes]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(starts, "run", world.run)
    return world


def plan(cache: str, **given: Any) -> Any:
    given = {"starts": 3, "seed": 0, "timeout_s": 60.0, "max_error": None} | given
    return made_up_records.plan(compile_cache=cache, **given)


SHARED = {"warm", "precompiled"}


@pytest.mark.parametrize(
    ("cache", "mode", "fills", "shares"),
    [
        ("cold", COMPILE, False, False),
        ("warm", COMPILE, True, True),
        ("precompiled", COMPILE, True, True),
        ("shipped", COMPILE, True, False),
        ("aot", AOT, True, False),
        ("cold", AOTI, True, False),
    ],
)
def test_which_folders_a_process_gets(
    world: World, tmp_path: Path, cache: str, mode: Mode, fills: bool, shares: bool
) -> None:
    asked = case(variant=Variant(mode, "fp32"))
    with starts.opened(asked, plan(cache), tmp_path / "log") as rung:
        assert rung.needs_filling == fills
        if fills:
            rung.fill()
            assert (rung.cache_bytes, rung.shipped_bytes) == (len(FOUND), len(MADE))
        rung.start(calls=7)
        rung.start_baseline()
        rung.start()
        with rung.later() as variables:
            measures = Path(variables["TORCHINDUCTOR_CACHE_DIR"])
            assert Path(variables[SAVED]).is_dir()
            assert any(measures.iterdir()) == shares
        # sizes are those of the time right after filling
        assert rung.cache_bytes == (len(FOUND) if fills else None)
    filled = world.processes[:1] if fills else []
    first, other, second = world.processes[len(filled) :]
    assert (first.asked.calls, second.asked.calls) == (7, 0)
    assert {first.asked.plan.compile_cache, second.asked.plan.compile_cache} == {cache}
    assert all(process.asked.fills for process in filled)
    # the baseline has empty caches, whatever the case's
    assert other.asked.case == replace(asked, variant=asked.baseline, baseline=None)
    assert (other.asked.plan.compile_cache, other.found) == ("cold", ())
    if shares:
        assert {first.caches, second.caches, measures} == {filled[0].caches}
        assert (first.found, second.found) == (("made-1",), ("made-1", "made-2"))
    else:
        used = [process.caches for process in world.processes]
        assert len({*used, measures}) == len(used) + 1
        assert (first.found, second.found) == ((), ())
    assert len({process.saved for process in world.processes}) == 1
    assert not any(process.caches.exists() for process in world.processes)
    assert not any(process.saved.exists() for process in world.processes)


def test_a_rung_that_ships_nothing_has_no_size_of_it(world: World, tmp_path: Path) -> None:
    world.saves = False
    with starts.opened(case(), plan("warm"), tmp_path / "log") as rung:
        rung.fill()
        assert (rung.cache_bytes, rung.shipped_bytes) == (len(FOUND), None)


def test_two_rungs_at_once_share_no_folder_and_leave_none_when_they_end_early(
    world: World, tmp_path: Path
) -> None:
    log, inside = tmp_path / "log", list[Path]()

    def fails() -> None:
        with (
            starts.opened(case(), plan("warm"), log) as first,
            starts.opened(case(), plan("warm"), log) as second,
        ):
            for rung in (first, second):
                rung.fill()
            with first.later() as mine, second.later() as theirs:
                inside.extend(Path(path) for path in (*mine.values(), *theirs.values()))
                raise KeyError

    with pytest.raises(KeyError):
        fails()
    folders = [(process.caches, process.saved) for process in world.processes]
    assert len({*folders[0], *folders[1]}) == 4
    assert len({*inside}) == len(inside)
    assert not any(folder.exists() for pair in folders for folder in pair)


def measured(
    world: World, tmp_path: Path, cache: str = "warm", asked: Any = None, **given: Any
) -> tuple[Starts, list[str]]:
    phases: list[str] = []
    asked, planned = asked or case(), plan(cache, **given)
    with starts.opened(asked, planned, tmp_path / "log") as rung:
        found = starts.measure(rung, asked, planned, phases.append)
    assert not any(process.caches.exists() for process in world.processes)
    return found, phases


def end_of(world: World, tmp_path: Path, **given: Any) -> Result:
    with pytest.raises(Ended) as ended:
        measured(world, tmp_path, **given)
    assert not any(process.caches.exists() for process in world.processes)
    return ended.value.result


FAILED = says(failure="it died")
KILLED = Timed(Start(failure="ended by SIGKILL", status=Status.CRASHED), math.inf, 1.0)


@pytest.mark.parametrize(
    ("answers", "sides"),
    [
        ({"fill": [FAILED]}, ["fill"]),
        ({"fill": [KILLED]}, ["fill"]),
        ({"mine": [FAILED]}, ["fill", "mine"]),
        ({"mine": [says(), KILLED]}, ["fill", "mine", "mine"]),
    ],
    ids=["fill-fails", "fill-killed", "first-fails", "second-killed"],
)
def test_a_case_ends_with_the_first_process_that_fails(
    world: World, tmp_path: Path, answers: dict[str, list[Timed]], sides: list[str]
) -> None:
    ended = next(iter(answers.values()))[-1].start
    world.answers = answers
    result = end_of(world, tmp_path, asked=case(baseline=None))
    assert result.status == ended.status
    assert ended.failure in str(result.reason)
    assert result.findings.starts == Starts()
    assert world.sides() == sides


def test_a_baseline_that_fails_ends_the_case_too(world: World, tmp_path: Path) -> None:
    world.answers = {"other": [FAILED]}
    assert end_of(world, tmp_path).status == Status.FAILED
    assert world.sides()[-1] == "other"


@pytest.mark.parametrize(
    ("errors", "accepted", "status"),
    [
        ([0.0, 1e-5, None], None, None),
        ([0.0, 0.5, 0.0], None, Status.WRONG_RESULT),
        ([0.0, 0.5, 0.0], 0.6, None),
        ([0.0, 0.5, 0.7], 0.6, Status.WRONG_RESULT),
        ([0.0, 0.0, math.inf], 0.6, Status.WRONG_RESULT),
        ([math.nan, 0.0, 0.0], 0.6, Status.WRONG_RESULT),
        ([0.0, math.nan, 0.0], None, Status.WRONG_RESULT),
    ],
)
def test_a_wrong_first_result_is_no_start(
    world: World, tmp_path: Path, errors: list[float | None], accepted: float | None,
    status: Status | None,
) -> None:  # fmt: skip
    world.answers = {"mine": [says(error=error) for error in errors]}
    if status is None:
        measured(world, tmp_path, max_error=accepted)
    else:
        assert end_of(world, tmp_path, max_error=accepted).status == status


def test_turns_are_taken_in_random_order_by_the_seed(world: World, tmp_path: Path) -> None:
    orders = []
    for seed in (0, 0, 1, 2):
        world.processes.clear()
        _, phases = measured(world, tmp_path, "cold", seed=seed, starts=8)
        sides = world.sides()
        pairs = [*zip(sides[::2], sides[1::2], strict=True)]
        assert {*map(frozenset, pairs)} == {frozenset({"mine", "other"})}
        assert len({*pairs}) == 2  # not always the same first
        assert len(phases) == 8
        orders.append(sides)
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) > 1


@pytest.mark.parametrize("cache", [name for name, state in CACHES.items() if state.is_saved])
def test_without_starts_a_cache_is_filled_alone(world: World, tmp_path: Path, cache: str) -> None:
    mode = AOT if cache == "aot" else COMPILE
    found, phases = measured(world, tmp_path, cache, case(variant=Variant(mode, "fp32")), starts=0)
    assert world.sides() == ["fill"]
    assert found == Starts(fill_s=2.0, cache_bytes=len(FOUND), shipped_bytes=len(MADE))
    assert len(phases) == 1


def timed(at: float, **said: Any) -> Timed:
    return Timed(Start(**said), until_result_s=at, ended_s=at + 100)


def test_columns_are_those_of_their_side(world: World, tmp_path: Path) -> None:
    world.answers = {
        "fill": [timed(9.0, phases_s={"load": 9.0}, graphs=9, hits=9, misses=9)],
        "mine": [
            timed(1.0, phases_s={"load": 1.0}, graphs=1, hits=2, misses=3),
            timed(2.0, phases_s={"run": 2.0}, graphs=4, hits=5, misses=6),
        ],
        "other": [timed(3.0, phases_s={"load": 3.0}, graphs=7), timed(4.0, graphs=8)],
    }
    found, _ = measured(world, tmp_path, starts=2)
    assert json.loads(found.start_phases_s or "") == [{"load": 1.0}, {"run": 2.0}]
    assert replace(found, start_phases_s=None) == Starts(
        starts_s=(1.0, 2.0),
        baseline_starts_s=(3.0, 4.0),
        fill_s=109.0,
        cache_bytes=len(FOUND),
        shipped_bytes=len(MADE),
        start_graphs=4,
        start_hits=2,  # the fewest
        start_misses=6,
    )


def test_a_case_without_a_baseline_starts_none(world: World, tmp_path: Path) -> None:
    found, _ = measured(world, tmp_path, "cold", case(baseline=None), starts=2)
    assert world.sides() == ["mine"] * 2
    assert found.baseline_starts_s is None
    assert (found.fill_s, found.cache_bytes) == (None, None)


@pytest.mark.parametrize(
    ("cache", "graphs", "hits", "misses", "why"),
    [
        ("cold", 1, 0, 1, None),
        ("warm", 1, 1, 0, None),
        ("warm", 1, 0, 0, "nothing was found"),
        ("warm", 1, 1, 1, "code was generated"),
        ("shipped", 1, 1, 0, None),
        ("shipped", 1, 0, 1, "code was generated"),
        ("shipped", 1, 0, 0, "nothing was found"),
        ("precompiled", 0, 1, 0, None),
        ("precompiled", 1, 1, 0, "Dynamo made a graph"),
        ("precompiled", 0, 1, 1, "code was generated"),
        ("precompiled", 0, 0, 0, "nothing was found"),
        ("aot", 0, 0, 0, None),  # whose backend counts its own calls
    ],
)
def test_why_a_cache_was_not_used(
    cache: str, graphs: int, hits: int, misses: int, why: str | None
) -> None:
    counted = Starts(start_graphs=graphs, start_hits=hits, start_misses=misses)
    found = starts.why_unused(cache, replace(counted, starts_s=(1.0,)))
    assert (found is None) == (why is None)
    assert (why or "") in (found or "")
    assert starts.why_unused(cache, counted) is None  # without starts nothing was asked

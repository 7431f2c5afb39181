"""What a chunk measures, skips and reuses; children have immediate results."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.cluster import chunk as module
from modescope.bench.cluster.chunk import Chunk, Entry, measure_chunk, read_log
from modescope.bench.sweep import attempt, isolation, prepare
from tests.helpers.commands import TINY, Ask, rows
from tests.helpers.worlds import World

Measure = Callable[..., list[int]]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def measure(
    ask_quickly: Ask, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Measure:
    """Measures a chunk of such a sweep whose log has these lines; the numbers in their order."""
    monkeypatch.setattr(isolation, "call", World().call)
    monkeypatch.setattr(prepare, "_hosts", {})
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "chunk-0.log"

    def call(words: Sequence[str], numbers: Sequence[int], lines: Sequence[str] = ()) -> list[int]:
        log.write_text("".join(f"{line}\n" for line in lines))
        requests = [
            replace(each, settings=replace(each.settings, results_dir=str(results)))
            for each in ask_quickly(*TINY, *words)
        ]
        measure_chunk(Chunk(tuple(requests), tuple(numbers), log, tmp_path, "slurm"), "7_0")
        added = map(json.loads, log.read_text().splitlines()[len(lines) :])
        return [each["number"] for each in added if not (each["run_id"] or each["mistake"])]

    return call


BEGUN, FINISHED = '{"number": 0}', '{"number": 0, "run_id": "run-0"}'
MODES = ["mode=eager,no_grad,inference_mode"]


def test_the_cases_of_a_chunk_are_measured_in_its_order(
    measure: Measure, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two on the CPU each has the node alone."""
    held = []

    def try_lock(*arguments: object, **options: object) -> object:
        folder = Path("/dev/shm") / f"modescope-locks-{os.getuid()}"
        with (folder / "node").open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        held.append(True)
        return attempt.attempt(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "attempt", try_lock)
    assert measure(MODES, [2, 0]) == [2, 0]
    assert held == [True, True]
    found = [(row["mode"], row["scheduler_job"], row["position"]) for row in rows(results)]
    assert found == [("inference_mode", "7_0", 0), ("eager", "7_0", 1)]


def test_what_it_was_measuring_comes_last_after_a_restart(measure: Measure) -> None:
    assert measure(MODES, [0, 1, 2], [BEGUN, FINISHED, '{"number": 1}']) == [2, 1]


def test_a_row_stands_for_one_case_also_after_a_restart(measure: Measure, results: Path) -> None:
    assert measure(["mode=eager", "seed=0,1"], [0]) == [0]
    (row,) = rows(results)
    lines = [FINISHED.replace("run-0", row["run_id"])]
    assert measure(["mode=eager", "seed=0,1"], [0, 1], lines) == [1]
    assert measure(["mode=eager", "seed=0,1"], [0, 1]) == []
    assert len(rows(results)) == 2


def test_a_mistake_has_a_line_and_no_row(measure: Measure, results: Path, tmp_path: Path) -> None:
    assert measure(["mode=eager", "threads=99"], [0]) == []
    (entry,) = read_log(tmp_path / "chunk-0.log").values()
    assert entry.mistake.startswith("threads=99: ")
    assert not rows(results)


def test_a_line_that_is_still_being_written_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "chunk-0.log"
    log.write_text(f'{BEGUN}\n{FINISHED}\n{{"number": 6}}\n{{"number": 7, "ru')
    assert [*read_log(log).values()] == [Entry(0, "run-0"), Entry(6)]

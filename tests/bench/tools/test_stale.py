"""What became of a process that started with a cache of before a change."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pytest_regressions.file_regression import FileRegressionFixture

from modescope.bench import stale
from modescope.bench.records.outcomes import Status
from modescope.bench.records.starts import Start
from modescope.bench.sweep.starts import Timed
from modescope.bench.tools.stale.cells import WITHOUT, Cell, Outcome, classify, render

LIMIT = 5e-4
HIT = Start(graphs=1, hits=1)


def cell(
    start: Start,
    error: float = 0.0,
    *,
    libraries: int = 0,
    traces: bool = True,
    is_option: bool = False,
) -> Cell:
    timed = Timed(start, 1.0, 1.0, libraries)
    return classify(timed, error, LIMIT, traces, is_option)


@pytest.mark.parametrize(
    ("found", "outcome", "note"),
    [
        (cell(HIT), Outcome.REUSED, ""),
        (cell(Start(), traces=False), Outcome.REUSED, ""),
        (cell(HIT, LIMIT), Outcome.REUSED, ""),
        (cell(Start(graphs=1, misses=1), libraries=1), Outcome.COMPILED, "code, C++"),
        (cell(HIT, libraries=1), Outcome.COMPILED, "C++"),
        (cell(HIT, traces=False), Outcome.COMPILED, "graph"),
        (cell(HIT, is_option=True), Outcome.REUSED, WITHOUT),
        (cell(HIT, libraries=1, is_option=True), Outcome.COMPILED, f"C++, {WITHOUT}"),
        (cell(Start(graphs=1, misses=1), is_option=True), Outcome.COMPILED, "code"),
        (cell(HIT, 2 * LIMIT), Outcome.WRONG, "relative error 0.001"),
        (cell(Start(), math.nan), Outcome.WRONG, "relative error nan"),
        (cell(Start(misses=1), 1.0, libraries=1), Outcome.WRONG, "relative error 1"),
        (cell(Start(failure="AssertionError: x"), 1.0), Outcome.REFUSED, ""),
        (cell(Start(failure="by SIGSEGV", status=Status.CRASHED)), Outcome.CRASHED, ""),
        (cell(Start(failure="still running", status=Status.TIMEOUT)), Outcome.CRASHED, ""),
    ],
)
def test_outcomes(found: Cell, outcome: Outcome, note: str) -> None:
    assert (found.outcome, found.note) == (outcome, note)


def test_only_a_refusal_has_torchs_words() -> None:
    assert cell(Start(failure="AssertionError: x")).words == "AssertionError: x"
    assert cell(HIT, 1.0).words is None


def test_the_table_says_equal_words_once(file_regression: FileRegressionFixture) -> None:
    refused = Cell(Outcome.REFUSED, words="RuntimeError: Source code changes detected")
    lacking = Cell(words="the process that fills the cache failed: no attribute aot_compile")
    cells = {
        "warm": [Cell(Outcome.REUSED), Cell(Outcome.COMPILED, "code, C++"), Cell()],
        "precompiled": [refused, refused, Cell(Outcome.REFUSED, words="SIGILL")],
        "aot": [lacking] * 3,
        "aoti": [Cell(Outcome.WRONG, "relative error 0.5"), Cell(Outcome.REUSED, WITHOUT), Cell()],
    }
    file_regression.check(render(cells, ["source", "option", "bundle"]), extension=".txt")


@pytest.mark.parametrize(
    "words", [["nosuch"], ["mlp", "--rung", "hot"], ["mlp", "--change", "moon"], ["timm"]]
)
def test_a_mistake_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert stale.main(words) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.full
def test_a_weight_is_an_input_of_a_graph_and_aot_does_not_read_the_source(tmp_path: Path) -> None:
    words = ["model=mlp", "shape.width=64", f"results_dir={tmp_path}"]
    found = stale.measure(words, ["warm", "aot"], ["weight", "source"])
    assert {name: [cell.outcome for cell in cells] for name, cells in found.items()} == {
        "warm": [Outcome.REUSED, Outcome.COMPILED],
        "aot": [Outcome.COMPILED, Outcome.WRONG],  # C++: a file of aot_compile has no libraries
    }
    assert found["aot"][0].note == "C++"
    assert found["aot"][1].note == "relative error 0.5"  # half of what the changed line computes

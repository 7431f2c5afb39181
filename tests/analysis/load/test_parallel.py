"""Work in several processes gives the results of one process, and leaves no process behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modescope.analysis.load import parallel
from modescope.analysis.load.parallel import spread
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, marker, soon


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)


def where(piece: int) -> tuple[int, int]:
    return piece, os.getpid()


@pytest.mark.parametrize("worth_it", [False, True])
def test_results_come_in_order(worth_it: bool) -> None:
    found = list(spread(where, range(9), worth_it))
    assert [piece for piece, _ in found] == list(range(9))
    assert (os.getpid() in {process for _, process in found}) is not worth_it


def test_stopping_early_leaves_no_process() -> None:
    results = spread(where, range(100), True)
    assert next(results)[0] == 0
    results.close()
    assert multiprocessing.active_children() == []


def failing(piece: int) -> int:
    raise ValueError(f"not {piece}")


def test_an_exception_in_a_process_is_raised_in_the_caller() -> None:
    with pytest.raises(ValueError, match="not 3"):
        list(spread(failing, [3, 4], True))
    assert multiprocessing.active_children() == []


def dying_elsewhere(piece: tuple[int, int]) -> int:
    number, parent = piece
    if number == 2 and os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_the_caller_does_the_work_of_a_killed_process() -> None:
    pieces = [(number, os.getpid()) for number in range(5)]
    assert list(spread(dying_elsewhere, pieces, True)) == [0, 1, 2, 3, 4]
    assert multiprocessing.active_children() == []


KILLED = """
import time
from modescope.analysis.load import parallel as spreading
spreading.usable_cores = lambda: 2
for result in spreading.spread(abs, range(4), True):
    print(result, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_their_parent(number: int) -> None:
    sign = marker()
    parent = subprocess.Popen(
        [sys.executable, "-c", KILLED], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "MODESCOPE_TEST": sign},
    )  # fmt: skip
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "0\n"
        assert soon(lambda: len(alive(sign)) >= 3)  # and two that work
        parent.send_signal(number)
    assert soon(lambda: not alive(sign))


NO_GUARD = """
from modescope.analysis.load import parallel as spreading
from modescope.analysis.load.parallel import spread
spreading.usable_cores = lambda: 2
print("main")
print(list(spread(abs, [-1, -2], True)))
"""


def test_the_main_script_is_not_run_again_in_processes(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(NO_GUARD)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("main\n[1, 2]\n", "")

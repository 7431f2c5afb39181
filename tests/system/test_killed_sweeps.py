"""A sweep that is killed at random moments and started again until it is complete."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.helpers.commands import rows, started, stored
from tests.helpers.processes import alive, soon

pytestmark = pytest.mark.full

SWEEP = [
    *("-m", "budget=smoke", "model=pointwise", "shape=small", "profile=false", "memory=false"),
    *("mode=eager,no_grad", "replicates=20"),
]
PROCESSES = 40  # two modes, twenty times each: more than are measured before the last kill
LONGEST_WAIT_S = 0.12  # about the duration of a case: the kill may come at any moment of one
KILLS = [signal.SIGKILL] * 4 + [signal.SIGTERM] * 2


def run_ids(results: Path) -> set[str]:
    """Run ids of all rows; every row can be read, and none occurs twice."""
    found = rows(results)
    assert len({(row["case_id"], row["replicate"]) for row in found}) == len(found)
    return {row["run_id"] for row in found}


def test_a_sweep_killed_again_and_again_ends_complete(tmp_path: Path) -> None:
    """Only the process that the user started is killed."""
    results, temporary = tmp_path / "results", tmp_path / "temporary"
    temporary.mkdir()
    moment = random.Random(20260301)
    known: set[str] = set()
    for number in moment.sample(KILLS, len(KILLS)):
        sweep = started(results, SWEEP, TMPDIR=str(temporary))
        wanted = stored(results) + moment.randint(1, 2)
        assert soon(lambda: stored(results) >= wanted, within_s=60)  # noqa: B023
        time.sleep(moment.uniform(0, LONGEST_WAIT_S))
        assert sweep.process.poll() is None, "the kill came after the end of the sweep"
        sweep.process.send_signal(number)
        answer = sweep.end()
        assert soon(lambda: not alive(sweep.sign), within_s=10)  # noqa: B023
        done = run_ids(results)
        assert known < done, "what was measured stays, and there is more of it"
        known = done
        assert len(done) < PROCESSES
        assert "Traceback" not in answer.err
        assert answer.status == (143 if number == signal.SIGTERM else -signal.SIGKILL)
        if number == signal.SIGTERM:
            assert f"stopped after {len(done)} of {PROCESSES}" in answer.out
            assert f"results  {results / 'main' / 'rows'}" in answer.out

    last = started(results, SWEEP, TMPDIR=str(temporary))
    answer = last.end(within_s=300)
    assert answer.status == 0, answer.err
    assert f"reusing {len(known)} of {PROCESSES} cases" in answer.out
    assert not alive(last.sign)
    assert known < run_ids(results)
    assert [row["status"] for row in rows(results)] == ["ok"] * PROCESSES
    files = list((results / "main" / "rows").iterdir())  # hidden files, too
    assert [file.name.startswith("part-") for file in files] == [True]
    assert list(temporary.glob("modescope-*")) == []


def test_sigterm_before_measuring_ends_the_sweep(tmp_path: Path) -> None:
    """While the helpers import torch."""
    sweep = started(tmp_path / "results", SWEEP, TMPDIR=str(tmp_path))
    assert soon(lambda: len(alive(sweep.sign)) >= 2, within_s=30)
    sweep.process.terminate()
    answer = sweep.end()
    assert (answer.status, answer.err) == (143, "")
    assert soon(lambda: not alive(sweep.sign), within_s=10)
    assert rows(tmp_path / "results") == []

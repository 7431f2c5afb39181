"""A sweep that is killed at random moments and started again until it is complete."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.helpers.commands import finish, rows, started, stored
from tests.helpers.processes import soon

pytestmark = pytest.mark.full

SWEEP = [
    *("-m", "budget=smoke", "model=pointwise", "shape=small", "profile=false", "memory=false"),
    *("mode=eager,no_grad", "replicates=20"),
]
PROCESSES = 40  # two modes, twenty times each: more than are measured before the last kill
LONGEST_WAIT_S = 0.12  # about the duration of a case: the kill may come at any moment of one
ENDS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 143, signal.SIGINT: 130}
"""Exit statuses by signals; each is sent twice."""


def run_ids(results: Path) -> set[str]:
    """Run ids of all rows; every row can be read, and none occurs twice."""
    found = rows(results)
    assert len({(row["case_id"], row["replicate"]) for row in found}) == len(found)
    return {row["run_id"] for row in found}


def test_a_sweep_killed_again_and_again_ends_complete(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """SIGINT reaches all processes, as from a terminal; the others that of the user."""
    results, temporary = tmp_path / "results", tmp_path_factory.mktemp("t")  # a socket's path
    moment = random.Random(20260301)
    known: set[str] = set()
    for number in moment.sample([*ENDS] * 2, 2 * len(ENDS)):
        sweep = started(results, SWEEP, TMPDIR=str(temporary))
        wanted = stored(results) + moment.randint(1, 2)
        assert soon(lambda: stored(results) >= wanted, within_s=60)  # noqa: B023
        time.sleep(moment.uniform(0, LONGEST_WAIT_S))
        assert sweep.process.poll() is None, "the kill came after the end of the sweep"
        send = os.killpg if number == signal.SIGINT else os.kill
        send(sweep.process.pid, number)
        answer = finish(sweep)
        done = run_ids(results)
        assert known < done, "what was measured stays, and there is more of it"
        known = done
        assert len(done) < PROCESSES
        assert answer.status == ENDS[number]
        if number != signal.SIGKILL:
            assert f"stopped after {len(done)} of {PROCESSES}" in answer.out
            assert f"results  {results / 'main' / 'rows'}" in answer.out

    answer = finish(started(results, SWEEP, TMPDIR=str(temporary)), within_s=300)
    assert answer.status == 0, answer.err
    assert f"reusing {len(known)} of {PROCESSES} cases" in answer.out
    assert known < run_ids(results)
    assert [row["status"] for row in rows(results)] == ["ok"] * PROCESSES
    files = list((results / "main" / "rows").iterdir())  # hidden files, too
    assert [file.name.startswith("part-") for file in files] == [True]
    assert list(temporary.glob("modescope-*")) == []

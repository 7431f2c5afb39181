"""Real new processes: where planted delays land, and how one ends that fails, dies or hangs."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.records.cases import Mode, Model, Variant
from modescope.bench.records.columns.starting import PHASES
from modescope.bench.records.starts import Asked
from modescope.bench.sweep import starts
from modescope.bench.sweep.starts import Timed
from tests.helpers.made_up_records import EAGER
from tests.helpers.paths import ROOT
from tests.helpers.probe_models import case, smoke
from tests.helpers.processes import alive, marker, soon

MODULE = """
import os
import subprocess
import time

import torch

{imported}


class Doubles(torch.nn.Module):
    def forward(self, x):
        {forward}
        return x * 2


def build():
    {built}
    return Doubles(), (torch.ones(4),)
"""

Of = Callable[..., Timed]

RATHER_LONG_S = 0.25
"""What a phase may last beyond the delay that is planted in it."""


@pytest.fixture
def of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Of:
    """The first call of a made-up model in a new process; the parts are lines of its module."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def started(
        mode: Mode = EAGER, timeout_s: float = 60, imported: str = "pass", built: str = "pass",
        forward: str = "pass", calls: int = 0,
    ) -> Timed:  # fmt: skip
        text = MODULE.format(imported=imported, built=built, forward=forward)
        (tmp_path / "planted.py").write_text(text)
        asked = case(Model("custom:planted:build", "planted:build"), Variant(mode, "fp32"), None)
        plan = replace(smoke(), compile_cache="cold", timeout_s=timeout_s)
        with starts.opened(asked, plan, tmp_path / "log") as rung:
            return rung.start(calls)

    return started


def test_planted_delays_are_in_the_phases_that_have_them(of: Of) -> None:
    timed = of(
        imported="time.sleep(2)", built="time.sleep(0.3)", forward="time.sleep(0.6)", calls=2
    )
    start = timed.start
    assert start.failure is None
    assert {*start.phases_s} <= {*PHASES}
    assert start.phases_s["import"] > 2
    assert 0.3 < start.phases_s["load"] < 0.3 + RATHER_LONG_S
    assert 0.6 < start.phases_s["run"] < 0.6 + RATHER_LONG_S
    assert start.phases_s["rest"] < RATHER_LONG_S
    assert 1.2 < start.calls_s < 1.2 + RATHER_LONG_S  # and in no phase
    # the parent's clock ran from before the process until its word came
    assert start.whole_s == pytest.approx(sum(start.phases_s.values()))
    assert start.whole_s == pytest.approx(timed.until_result_s, rel=0.02)
    assert timed.ended_s > timed.until_result_s + start.calls_s
    assert start.error == 0.0
    assert (start.graphs, start.hits, start.misses) == (0, 0, 0)


@pytest.mark.parametrize(
    ("forward", "timeout_s", "within", "status"),
    [
        ("raise RuntimeError('first line\\nsecond line')", 60, "first line", "failed"),
        ("raise MemoryError('so much')", 60, "so much", "oom"),
        ("raise OSError(28, os.strerror(28))", 60, "No space left on device in /", "failed"),
        ("os.kill(os.getpid(), 9)", 60, "by SIGKILL", "crashed"),
        ("raise SystemExit(3)", 60, "with exit status 3", "crashed"),
        ("time.sleep(60)", 6, "timeout_s=6", "timeout"),
    ],
    ids=["raises", "oom", "full", "dies", "exits", "hangs"],
)
def test_a_process_that_does_not_come_to_its_end_says_so_and_leaves_none(
    of: Of, tmp_path: Path, forward: str, timeout_s: float, within: str, status: str
) -> None:
    sign = marker()
    begins = f"subprocess.Popen(['sleep', '{sign}']); open('{tmp_path}/begun', 'w').close()"
    timed = of(timeout_s=timeout_s, imported=begins, forward=forward)
    assert (tmp_path / "begun").exists()
    assert within in timed.start.failure
    assert timed.start.status == status
    assert len(timed.start.failure.splitlines()) == 1
    assert timed.until_result_s == math.inf
    assert soon(lambda: not alive(sign))


def test_a_process_that_leaves_another_running_has_ended(of: Of) -> None:
    """Also one that it gave all its files to, as a shell does."""
    sign = marker()
    timed = of(timeout_s=20, forward=f"os.system('sleep {sign} &')")
    assert timed.start.failure is None
    assert timed.ended_s < 20
    assert soon(lambda: not alive(sign))


def test_a_process_ends_with_the_one_that_reads_from_it(tmp_path: Path) -> None:
    sign = marker()
    (tmp_path / "planted.py").write_text(
        f"import subprocess, time; subprocess.Popen(['sleep', '{sign}']); time.sleep(60)"
    )
    asked = case(Model("custom:planted:build", "planted:build"), Variant(EAGER, "fp32"), None)
    description = tmp_path / "asked"
    description.write_bytes(pickle.dumps(Asked(asked, smoke())))
    reads = (
        "import sys; from pathlib import Path; from modescope.bench.sweep import starts; "
        "starts.run(Path(sys.argv[1]), {}, Path(sys.argv[1] + '.log'), 60)"
    )
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    reader = subprocess.Popen(
        [sys.executable, "-P", "-c", reads, str(description)],
        env={**os.environ, "PYTHONPATH": path, "MODESCOPE_TEST": sign},
    )
    try:
        assert soon(lambda: len(alive(sign)) == 3, 20)  # it, what it started, what that started
    finally:
        reader.kill()
        reader.wait()
    assert soon(lambda: not alive(sign), 5)

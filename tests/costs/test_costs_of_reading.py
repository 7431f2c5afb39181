"""The time to read a large study from the command line: `make bench`.

In other sessions every body runs once, on small data, without limits.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import matplotlib
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from modescope.analysis.load import study
from tests.helpers import large_studies
from tests.helpers.commands import Show
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.full

RUNS, CASES = 10_000, 550
FEW_RUNS, FEW_CASES = study.WORTH_CACHING + 10, 44

# Goals for two quiet cores, and the limits of `make bench` for slower ones.
COLD_GOAL_S, COLD_LIMIT_S = 40, 60
TABLE_GOAL_S, TABLE_LIMIT_S = 3, 6
REPORT_GOAL_S, REPORT_LIMIT_S = 10, 20


@pytest.fixture(scope="module")
def folder(measuring: bool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs, cases = (RUNS, CASES) if measuring else (FEW_RUNS, FEW_CASES)
    return large_studies.study(tmp_path_factory.mktemp("large") / "study", runs, cases)


@pytest.fixture(scope="module")
def cold_s(folder: Path, environment: dict[str, str]) -> float:
    """The time of the first table, without a cache."""
    start = time.perf_counter()
    asked("table", folder, environment)
    return time.perf_counter() - start


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A cache folder that is empty but for what figures need."""
    caches = str(tmp_path_factory.mktemp("caches"))
    return {**os.environ, "XDG_CACHE_HOME": caches, "MPLCONFIGDIR": matplotlib.get_cachedir()}


def asked(program: str, folder: Path, environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", f"analysis.{program}", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_table_of_a_large_study(
    benchmark: BenchmarkFixture,
    folder: Path,
    environment: dict[str, str],
    cold_s: float,
    show: Show,
) -> None:
    rounds = 1 if benchmark.disabled else 3
    out = benchmark.pedantic(asked, ("table", folder, environment), rounds=rounds)
    assert sum("×" in line for line in out.splitlines()) > 30
    if benchmark.enabled:
        warm_s = benchmark.stats.stats.median
        show(
            f"table of {RUNS:,} runs, {CASES} cases: {warm_s:.1f} s (goal: {TABLE_GOAL_S} s), the "
            f"first time {cold_s:.0f} s (goal: {COLD_GOAL_S} s)"
        )
        assert cold_s < COLD_LIMIT_S
        assert warm_s < TABLE_LIMIT_S


def test_report_of_a_large_study(
    benchmark: BenchmarkFixture,
    folder: Path,
    environment: dict[str, str],
    cold_s: float,
    show: Show,
) -> None:
    assert cold_s > 0  # the study has been read before
    rounds = 1 if benchmark.disabled else 3
    out = benchmark.pedantic(asked, ("report", folder, environment), rounds=rounds)
    page = Path(out.strip())
    assert page.is_file()
    if benchmark.enabled:
        warm_s = benchmark.stats.stats.median
        show(
            f"report of {RUNS:,} runs, {CASES} cases: {warm_s:.1f} s (goal: {REPORT_GOAL_S} s), "
            f"{page.stat().st_size / 2**20:.1f} MiB"
        )
        assert warm_s < REPORT_LIMIT_S

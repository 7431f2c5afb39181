"""The time to read a large study from the command line: `make bench`.

In other sessions every body runs once, on small data, without limits.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from modescope.bench.records.joining import join
from tests.helpers import large_studies
from tests.helpers.commands import Show
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.full

RUNS, CASES = 10_000, 550
FEW_RUNS, FEW_CASES = 60, 44
LOOSE_LIMIT_S, JOINED_LIMIT_S = 90, 40


@pytest.fixture(scope="module")
def folder(measuring: bool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs, cases = (RUNS, CASES) if measuring else (FEW_RUNS, FEW_CASES)
    return large_studies.study(tmp_path_factory.mktemp("large") / "study", runs, cases)


def asked(program: str, folder: Path) -> tuple[str, float]:
    """What a command prints, and how long it takes."""
    start = time.perf_counter()
    command = [sys.executable, "-m", f"analysis.{program}", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout, time.perf_counter() - start


def test_table_of_a_large_study(folder: Path, measuring: bool, show: Show) -> None:
    loose, loose_s = asked("table", folder)
    assert sum("×" in line for line in loose.splitlines()) > 30
    join(folder / "rows")
    joined, joined_s = asked("table", folder)
    assert joined == loose
    if measuring:
        show(f"table of {RUNS:,} rows: loose {loose_s:.0f} s, joined {joined_s:.0f} s")
        assert loose_s < LOOSE_LIMIT_S
        assert joined_s < JOINED_LIMIT_S


def test_report_of_a_large_study(folder: Path, measuring: bool, show: Show) -> None:
    out, report_s = asked("report", folder)
    page = Path(out.strip())
    assert page.is_file()
    if measuring:
        show(f"report of {RUNS:,} rows: {report_s:.0f} s, {page.stat().st_size / 2**20:.1f} MiB")

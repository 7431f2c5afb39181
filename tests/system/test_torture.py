"""A few rounds of torture, and whether it finds faults that are planted."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.helpers.paths import ROOT
from tests.torture.plants import PLANTS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def torture(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.torture", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_no_finished_case_is_lost() -> None:
    done = torture("--rounds", "3")  # of new seeds, which are printed
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 rounds passed" in done.stdout


@pytest.mark.full
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    done = torture("--rounds", "10", "--seed", "1", "--plant", name)
    if name == "wall_clock" and re.search("skipped: (clocks|workers)", done.stdout):
        pytest.skip("needs a C compiler, and root for machines of other names")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED" in done.stdout

"""Help and mistakes of the programs of analysis, which answer before pandas is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.paths import ROOT

PROGRAMS = ("table", "why", "report", "compare", "trend", "compact", "restat", "dictionary")


def run(program: str, *words: str) -> tuple[int, list[str], list[str], set[str]]:
    """Status, lines of stdout and of stderr, and names of what was imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", f"analysis.{program}", *words],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    said = [line for line in lines if not line.startswith("import time:")]
    names = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    return done.returncode, done.stdout.splitlines(), said, names


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_and_mistakes_need_no_pandas(program: str) -> None:
    status, out, error, names = run(program, "--help")
    assert (status, out[0].startswith("usage: "), error) == (0, True, [])
    assert "argparse" in names
    assert "pandas" not in names
    status, out, error, names = run(program, "--no-such-option")
    assert (status, out, len(error)) == (2, [], 1)
    assert "pandas" not in names

"""The outcomes of tests in a file: a line for each, by the machine that they ran on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

MACHINE = "MODESCOPE_PROOF_MACHINE"
"""Environment variable of the steps: what their tests have passed on."""


def outcomes(file: Path) -> Iterator[dict[str, str]]:
    """Every line of the file, oldest first; none where there is no file."""
    if file.is_file():
        yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())


def last(file: Path, machine: str | None = None) -> dict[str, str]:
    """The last outcome of each test, on this machine or on any."""
    return {
        each["test"]: each["outcome"]
        for each in outcomes(file)
        if machine in (None, each["machine"])
    }


def note(file: Path, test: str, outcome: str) -> None:
    """Appends an outcome on the machine that the environment names."""
    line = {"test": test, "outcome": outcome, "machine": os.environ.get(MACHINE, "")}
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"{json.dumps(line)}\n")

"""Runs `python -m bench.versus` in a process of its own; and two states of a small model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.commands import QUICKLY, Row, Started, rows
from tests.helpers.paths import ROOT
from tests.helpers.processes import marker

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return {forward}

def build():
    return Net(), (torch.randn(2, 4),)
"""
OLD = NET.format(forward="self.linear(x)")
NEW = NET.format(forward="self.linear(x).relu().sin()")

START = "from modescope.bench.versus.__main__ import main; sys.exit(main(sys.argv[1:]))"

THEIRS = ("model=custom", "model.target=net:build", *QUICKLY)


def versus(folder: Path, *words: str, **variables: str) -> Started:
    """Starts the command in `folder`, by this checkout, in a process group of its own."""
    sign = marker()
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {START}"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, *words],
        cwd=folder,
        env={**os.environ, "MODESCOPE_TEST": sign, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return Started(process, sign)


def of_sides(folder: Path) -> tuple[list[Row], list[Row]]:
    return rows(folder / "results", "main-old"), rows(folder / "results", "main-new")

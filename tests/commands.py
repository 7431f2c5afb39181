"""`python run.py` as tests type it: what a user sees, and what is on disk afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.processes import marker

ROOT = Path(__file__).resolve().parents[1]

QUICKLY = ["budget=smoke", "compile_cache=warm", "profile=false", "memory=false"]

TINY = [*QUICKLY, "model=pointwise", "shape=small"]

Row = dict[str, Any]


def last_of_each(*arguments: str) -> list[str]:
    """The arguments without settings that a later one changes, as a command line refuses these."""
    keys = [argument.lstrip("+~").partition("=")[0] for argument in arguments]
    return [each for n, each in enumerate(arguments) if keys[n] not in keys[n + 1 :]]


@dataclass(frozen=True)
class Answer:
    """What a user gets to see."""

    status: int
    out: str
    err: str


Cli = Callable[..., Answer]


def rows(results: Path, study: str = "main") -> list[Row]:
    """Every stored row, oldest first; none may be unreadable."""
    files = sorted((results / study / "runs").glob("*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


@dataclass(frozen=True)
class Started:
    """`python run.py` in a process group of its own, as a terminal starts it."""

    process: subprocess.Popen[str]
    sign: str  # carried by it and by everything that it starts

    def end(self) -> Answer:
        out, err = self.process.communicate(timeout=60)
        return Answer(self.process.returncode, out, err)


def started(results: Path, arguments: Sequence[str], **variables: str) -> Started:
    sign = marker()
    process = subprocess.Popen(
        [sys.executable, "run.py", f"results_dir={results}", *arguments],
        cwd=ROOT,
        env={**os.environ, **variables, "MODESCOPE_TEST": sign},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return Started(process, sign)

"""`python run.py` as tests run it: its output, and the rows on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from modescope.bench.records.parquet import SCHEMA, STORED, unpack
from modescope.bench.resolve import Request
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, marker, soon

QUICKLY = ["budget=smoke", "compile_cache=warm", "profile=false", "memory=false"]

TINY = [*QUICKLY, "model=pointwise", "shape=small"]

Row = dict[str, Any]


def last_of_each(*arguments: str) -> list[str]:
    """The arguments without settings that a later one sets again: run.py refuses repetitions."""
    keys = [argument.lstrip("+~").partition("=")[0] for argument in arguments]
    return [each for n, each in enumerate(arguments) if keys[n] not in keys[n + 1 :]]


@dataclass(frozen=True)
class Answer:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str


Cli = Callable[..., Answer]

Ask = Callable[..., list[Request]]
"""Arguments of a command line -> its requests."""


def rows_in(file: Path) -> list[Row]:
    """Every row of a Parquet file with every column of SCHEMA."""
    table = pq.ParquetFile(file).read()
    assert table.schema.names == STORED.names
    return list(unpack(table, SCHEMA.names).to_pylist())


def rows(results: Path, study: str = "main") -> list[Row]:
    """Every stored row of a study, oldest first; fails if one cannot be read."""
    files = (results / study / "rows").glob("*.parquet")
    found = [row for file in files for row in rows_in(file)]
    return sorted(found, key=lambda row: str(row["run_id"]))


def stored(results: Path, study: str = "main") -> int:
    """The number of stored rows, for a loop that waits for them."""
    files = (results / study / "rows").glob("*.parquet")
    return sum(pq.read_metadata(file).num_rows for file in files)


@dataclass(frozen=True)
class Started:
    """A running command in its own process group, as a terminal would start it."""

    process: subprocess.Popen[str]
    sign: str  # a marker in the environment of this process and all that it starts

    def end(self, within_s: float = 60) -> Answer:
        out, err = self.process.communicate(timeout=within_s)
        return Answer(self.process.returncode, out, err)


def finish(command: Started, within_s: float = 60, gone_s: float = 10) -> Answer:
    """Waits for the command's end; fails if a process is left after `gone_s`, or at a traceback."""
    answer = command.end(within_s)
    assert soon(lambda: not alive(command.sign), gone_s), "processes are left"
    assert "Traceback" not in answer.err
    return answer


def start(command: Sequence[str], folder: Path, **variables: str) -> Started:
    """Starts a command in `folder`, with these variables added to its environment."""
    sign = marker()
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **variables, "MODESCOPE_TEST": sign},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return Started(process, sign)


def started(results: Path, arguments: Sequence[str], **variables: str) -> Started:
    return start(["run.py", f"results_dir={results}", *arguments], ROOT, **variables)

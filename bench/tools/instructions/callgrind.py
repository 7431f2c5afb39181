"""Runs all cells in one valgrind process, as importing torch under it takes most of the time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from modescope.bench.records import leftovers
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import ROOT
from modescope.bench.tools.instructions.cells import CallCell
from modescope.bench.tools.instructions.profile import CallgrindProfile, parse

Done = Callable[[], None]

QUIET = {
    "PYTHONHASHSEED": "0",  # or dictionaries differ between runs
    "CUDA_VISIBLE_DEVICES": "",  # valgrind cannot follow a GPU's driver
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
}
"""Variables of the counted process: callgrind also counts the threads of numpy's BLAS."""


class Failed(Exception):
    """Valgrind or the counted process failed; the message is the last line of its output."""


@dataclass(frozen=True)
class CallgrindCounts:
    """The results of the counted process."""

    cpu_capability: str  # instruction set that torch chose under valgrind, e.g. AVX2
    blocks: Sequence[Sequence[CallgrindProfile]]  # per cell, then per block


def available() -> str:
    """Path of valgrind; raises UsageError if there is none that works with this torch."""
    program = shutil.which("valgrind")
    if program is None:
        raise UsageError(
            "counting instructions needs valgrind, which is not on PATH: install it (apt-get "
            "install valgrind, dnf install valgrind), or ask for the dispatch keys alone with "
            "--keys-only"
        )
    if not torch._C._valgrind_supported_platform():
        raise UsageError(
            f"torch {torch.__version__} was built without hooks for valgrind, which only its "
            "x86-64 Linux builds have; ask for the dispatch keys alone with --keys-only"
        )
    return program


def version(program: str) -> str:
    """Valgrind's version, such as 3.19.0."""
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.strip().removeprefix("valgrind-")


def count(
    program: str, cells: Sequence[CallCell], blocks: int, calls: int, done: Done
) -> CallgrindCounts:
    """Runs `blocks` blocks of `calls` calls of each cell; raises Failed.

    `done` is called when torch is imported and after each cell. Takes a minute or two, most of
    it for the import.
    """
    orders = json.dumps(
        {"cells": [asdict(cell) for cell in cells], "blocks": blocks, "calls": calls}
    )
    with leftovers.scratch() as folder:
        output, log = folder / "callgrind.out", folder / "log"
        command = [
            *(program, "--tool=callgrind"),
            "--quiet",  # stderr then holds only the program's messages
            "--collect-atstart=no",
            f"--callgrind-out-file={output}",
            *(sys.executable, "-m", f"{__package__}.inside", orders),
        ]
        capability = _run(command, log, done)
        parts = (Path(f"{output}.{i + 1}").read_text() for i in range(len(cells) * blocks))
        return CallgrindCounts(
            capability, [[parse(next(parts)) for _ in range(blocks)] for _ in cells]
        )


def _run(command: Sequence[str], log: Path, done: Done) -> str:
    """The first line that the command prints; calls `done` at each line."""
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **QUIET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout
        lines = []
        try:
            for line in process.stdout:
                lines.append(line.strip())
                done()
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        messages = [line for line in log.read_text().splitlines() if line.strip()]
        why = messages[-1] if messages else "without a message"
        raise Failed(f"valgrind ended with status {process.returncode}: {why}")
    return lines[0]

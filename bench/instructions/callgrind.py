"""One valgrind process for all cells: importing torch under it takes longer than all counting."""

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

from bench import leftovers
from bench.fingerprint import ROOT
from bench.instructions.cells import Cell
from bench.instructions.profile import Profile, parse
from bench.records import UsageError

Done = Callable[[], None]

QUIET = {
    "PYTHONHASHSEED": "0",  # equal runs fill equal dictionaries
    "CUDA_VISIBLE_DEVICES": "",  # valgrind cannot follow a GPU's driver
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
}
"""Variables for the counted process: callgrind counts the threads of numpy's BLAS too."""


class Failed(Exception):
    """Valgrind could not run the counted process to its end; the message is its own last line."""


@dataclass(frozen=True)
class Counts:
    """What the counted process reports."""

    cpu_capability: str  # instruction set that torch chose under valgrind, e.g. AVX2
    blocks: Sequence[Sequence[Profile]]  # per cell, then per block


def available() -> str:
    """Path of valgrind; raises UsageError where there is none that works with this torch."""
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
    """Such as 3.19.0."""
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.strip().removeprefix("valgrind-")


def count(program: str, cells: Sequence[Cell], blocks: int, calls: int, done: Done) -> Counts:
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
            "--quiet",  # what stands on stderr is the program's
            "--collect-atstart=no",
            f"--callgrind-out-file={output}",
            *(sys.executable, "-m", "bench.instructions.inside", orders),
        ]
        capability = _run(command, log, done)
        parts = (Path(f"{output}.{i + 1}").read_text() for i in range(len(cells) * blocks))
        return Counts(capability, [[parse(next(parts)) for _ in range(blocks)] for _ in cells])


def _run(command: Sequence[str], log: Path, done: Done) -> str:
    """The first line that the command prints; `done` is called at each."""
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
        said = [line for line in log.read_text().splitlines() if line.strip()]
        why = said[-1] if said else "it said nothing"
        raise Failed(f"valgrind ended with status {process.returncode}: {why}")
    return lines[0]

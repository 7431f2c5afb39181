"""What happens in the process of a claim: the experiment and its rule, or the snippet."""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from modescope.bench.devices.cuda import find
from modescope.bench.records.progress import Progress
from modescope.bench.tools.claims.figures import Figure, figures
from modescope.bench.tools.claims.table import CLAIMS
from modescope.bench.tools.claims.verdict import Verdict

SEED = 0


@dataclass(frozen=True)
class DeviceResult:
    """Verdict and figures of a claim on one device."""

    verdict: Verdict
    figures: list[Figure]
    seconds: float


def observe(progress: Progress, claim: str, device: str) -> DeviceResult:
    """Makes the experiment on one thread, and decides."""
    begin = time.monotonic()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    checked, hardware = CLAIMS[claim], find(device)
    progress("the experiment")
    observed = checked.observe(hardware)
    progress("the rule")
    verdict = checked.decide(observed)
    seconds = time.monotonic() - begin
    return DeviceResult(verdict, figures(claim, hardware.type, observed), seconds)


def run_snippet(progress: Progress, claim: str) -> str:
    """What a claim's snippet prints to standard output, as a file of its own would."""
    progress("the snippet")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "snippet.py")
        path.write_text(CLAIMS[claim].snippet, encoding="utf-8")
        printed = Path(folder, "printed")
        with _printing_to(printed):
            runpy.run_path(str(path), run_name="__main__")
        return printed.read_text(encoding="utf-8")


@contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """Standard output of Python, C++ and child processes goes to `path`."""
    sys.stdout.flush()
    kept = os.dup(1)
    with path.open("w") as file:
        os.dup2(file.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)

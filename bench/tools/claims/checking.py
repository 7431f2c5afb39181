"""All claims, and how one is checked: its function and its snippet in fresh processes."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from modescope.bench.devices.cuda import find
from modescope.bench.records.errors import Progress
from modescope.bench.stats.estimates import Estimate
from modescope.bench.sweep import isolation
from modescope.bench.tools.claims import (
    allocator,
    autocast,
    autograd,
    compiled_speed,
    cpp_library,
    cuda_graphs,
    custom_ops,
    dispatch,
    dispatch_cost,
    dynamo,
    fusion,
    strides,
    views,
)
from modescope.bench.tools.claims.claim import (
    UNDECIDED,
    Answer,
    Claim,
    Numbers,
    combined,
    split_unit,
    written,
)

CHAPTERS: dict[str, tuple[ModuleType, ...]] = {
    "views and allocation": (views, strides),
    "dispatch": (dispatch, dispatch_cost),
    "autograd": (autograd,),
    "autocast": (autocast,),
    "compile": (dynamo, fusion, compiled_speed),
    "custom ops": (custom_ops,),
    "allocator": (allocator,),
    "CUDA graphs": (cuda_graphs,),
}
"""Files of claims by their title on the page."""

_CLAIMS = [
    (title, each)
    for title, files in CHAPTERS.items()
    for file in files
    for each in vars(file).values()
    if isinstance(each, Claim)
]
CLAIMS = {each.id: each for _, each in _CLAIMS}
CHAPTER_OF = {each.id: title for title, each in _CLAIMS}

DOCUMENTS = {
    "000": "PyTorch memory allocation during tensor shape manipulation (2026-03-18)",
    "001": "Is it safe to create new gpu tensor during cuda graph capturing?",
    "002": "PyTorch Internals",
    "003": "PyTorch Internals: A Deep Dive Reference",
    "004": "Why can't I use the CUDA backend for 'aten::empty_strided'? (2025-01-30)",
}
"""What a claim's source names, by its first word."""

OK = "ok"
SKIPPED = "skipped"  # this machine lacks what it needs
LIMIT_S = 900.0  # for a check on one device, and for a snippet
NO_GPU = "no GPU: torch finds no CUDA device here"


OF_CLAIM = "statement", "source", "needs", "method", "snippet"
OF_ANSWER = "verdict", "because", "limits", "counter_example"
"""Fields of a row that are fields of the claim and of its answer."""


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """One row: a claim and what this machine says to it."""

    claim: str
    chapter: str
    statement: str
    source: tuple[str, ...]
    needs: tuple[str, ...]
    method: str
    verdict: str  # holds | holds_within_limits | refuted | undecided
    because: str
    limits: tuple[str, ...]
    counter_example: str | None  # of a refuted one
    devices: tuple[str, ...] = ()  # on which it was checked
    status: str = OK  # ok | skipped | failed | oom | timeout | crashed
    reason: str | None = None  # of another status than ok
    snippet: str
    printed: str | None = None  # by the snippet, in this run; None if it did not run
    seconds: float | None = None  # of the checks


@dataclass(frozen=True)
class NumberRow:
    """One number of one claim on one device, with its interval, or else a text."""

    claim: str
    label: str
    checked_on: str  # cpu | cuda
    number: float | None
    low: float | None  # 95 % interval
    high: float | None
    text: str | None
    unit: str  # s, B, x (a ratio), share; empty for counts and texts


def number_rows(claim: str, device: str, numbers: Numbers) -> list[NumberRow]:
    """A row for each number. Unknown (None) has neither number nor text."""
    rows = []
    for named, value in numbers.items():
        label, unit = split_unit(named)
        number = low = high = text = None
        if isinstance(value, Estimate):
            number, low, high = value.value, value.low, value.high
        elif isinstance(value, int | float) and not isinstance(value, bool):
            number = float(value)
        elif value is not None:
            text = written(value, unit)
        rows.append(NumberRow(claim, label, device, number, low, high, text, unit))
    return rows


def lacking(claim: Claim, devices: Sequence[str]) -> str | None:
    """Why the claim cannot be checked on one of `devices` (cpu, cuda:0); None if it can."""
    if not on(claim, devices):
        return NO_GPU
    try:
        # Inductor takes CXX for the name of one program.
        command = [os.environ.get("CXX", "g++")]
        command = cpp_library.compiler_command() if "compiler" in claim.needs else command
    except ValueError as error:
        return f"no C++ compiler: CXX is {os.environ['CXX']!r}: {error}"
    # On a GPU alone torch.compile asks for no C++ compiler.
    if claim.compilers and "cpu" in claim.devices and not shutil.which(command[0]):
        return f"no C++ compiler: there is no program {command[0]!r}; install g++, or set CXX"
    return None


def on(claim: Claim, devices: Sequence[str]) -> list[str]:
    """The devices among those here on which the claim is checked."""
    return [device for device in devices if device.partition(":")[0] in claim.devices]


def check(claim: Claim, devices: Sequence[str], logs: Path) -> tuple[ClaimRow, list[NumberRow]]:
    """Checks the claim on each of `devices` that it needs, then runs its snippet.

    Each has a process of its own; one that fails leaves its log in `logs`, and the rest goes on.
    Raises OSError if logs cannot be written.
    """
    if missing := lacking(claim, devices):
        answer = Answer(UNDECIDED, missing)
        return _row(claim, answer, status=SKIPPED, reason=missing), []
    begin = time.monotonic()
    answers: dict[str, Answer] = {}
    numbers: list[NumberRow] = []
    failures: list[tuple[str, str]] = []  # status and reason
    for device in on(claim, devices):
        outcome = _call("observe", claim, logs, device)
        if isinstance(outcome.value, Answer):
            answers[device] = outcome.value
            numbers += number_rows(claim.id, device.partition(":")[0], outcome.value.numbers)
        else:
            failures.append((outcome.kind, f"on {device}: {outcome.reason}"))
            answers[device] = Answer(UNDECIDED, outcome.reason or outcome.kind)
    seconds = time.monotonic() - begin
    snippet = _call("run_snippet", claim, logs)
    printed = snippet.value if snippet.kind == "returned" else None
    if printed is None:
        failures.append((snippet.kind, f"the snippet: {snippet.reason}"))
    run = {"devices": tuple(answers), "printed": printed, "seconds": seconds}
    if failures:
        status = failures[0][0].replace("usage", "failed")
        run |= {"status": status, "reason": "; ".join(why for _, why in failures)}
    return _row(claim, combined(answers), **run), numbers


def _row(claim: Claim, answer: Answer, **run: Any) -> ClaimRow:
    of_claim = {name: getattr(claim, name) for name in OF_CLAIM}
    of_answer = {name: getattr(answer, name) for name in OF_ANSWER}
    return ClaimRow(claim=claim.id, chapter=CHAPTER_OF[claim.id], **of_claim, **of_answer, **run)


def _call(function: str, claim: Claim, logs: Path, *more: str) -> isolation.Outcome:
    """In a process whose compiler caches are empty. Its log stays only if it fails."""
    log = logs / f"{claim.id}-{'-'.join([function, *more]).replace(':', '')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with isolation.compiler_caches("cold" if claim.compilers else "warm") as variables:
        outcome = isolation.call(
            f"{__name__}:{function}",
            *(claim.id, *more),
            timeout_s=LIMIT_S,
            log=log,
            variables=variables,
        )
    if outcome.kind == "returned":
        log.unlink(missing_ok=True)
    return outcome


def observe(progress: Progress, claim: str, device: str) -> Answer:
    """In the child: the answer of the device, on one thread."""
    progress("the check")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return CLAIMS[claim].check(find(device))


def run_snippet(progress: Progress, claim: str) -> str:
    """In the child: what the snippet prints to standard output, as a file of its own would."""
    progress("the snippet")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path, printed = Path(folder, "snippet.py"), Path(folder, "printed")
        path.write_text(CLAIMS[claim].snippet, encoding="utf-8")
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

"""All claims, and how one is tested: its function and its snippet in fresh processes."""

from __future__ import annotations

import contextlib
import io
import shutil
import time
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
    autocast,
    autograd,
    compiled_speed,
    compiler,
    cpp_library,
    cuda,
    custom_ops,
    dispatch,
    dispatch_cost,
    strides,
    views,
)
from modescope.bench.tools.claims.claim import UNDECIDED, Answer, Claim, Numbers, undecided, written

CHAPTERS: dict[str, tuple[ModuleType, ...]] = {
    "views and allocation": (views, strides),
    "dispatch": (dispatch, dispatch_cost),
    "autograd": (autograd,),
    "autocast": (autocast,),
    "compile": (compiler, compiled_speed),
    "custom ops": (custom_ops,),
    "CUDA memory and graphs": (cuda,),
}
"""Files of claims by their title on the page."""

_CLAIMS = [
    (title, each)
    for title, modules in CHAPTERS.items()
    for module in modules
    for each in vars(module).values()
    if isinstance(each, Claim)
]
CLAIMS = {claim.id: claim for _, claim in _CLAIMS}
CHAPTER_OF = {claim.id: title for title, claim in _CLAIMS}

OK = "ok"
SKIPPED = "skipped"  # this machine lacks what it needs
LIMIT_S = 900.0  # for a claim's function, and for a snippet


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """One row: a claim and what this machine says to it."""

    claim: str
    chapter: str
    statement: str
    source: str
    needs: str
    method: str
    verdict: str  # holds | holds_within_limits | refuted | undecided
    because: str
    limits: tuple[str, ...]
    counter_example: str | None  # of a refuted one
    tested_on: str | None  # cpu | cuda | cuda:<index>
    status: str = OK  # ok | skipped | failed | oom | timeout | crashed
    reason: str | None = None  # of another status than ok
    snippet: str
    printed: str | None = None  # by the snippet, in this run; None if it did not run
    seconds: float | None = None  # of the function


@dataclass(frozen=True)
class NumberRow:
    """One number of one claim with its interval, or a text; `written` is what the page shows."""

    claim: str
    label: str
    number: float | None
    low: float | None  # 95 % interval
    high: float | None
    written: str


def number_rows(claim: str, numbers: Numbers) -> list[NumberRow]:
    """A row for each number."""
    rows = []
    for label, value in numbers.items():
        number = low = high = None
        if isinstance(value, Estimate):
            number, low, high = value.value, value.low, value.high
        elif isinstance(value, int | float) and not isinstance(value, bool):
            number = float(value)
        rows.append(NumberRow(claim, label, number, low, high, written(value)))
    return rows


def place(claim: Claim, device: str) -> str | None:
    """Where the claim is tested: on `device` (cpu, cuda:0), else the CPU; None if on neither."""
    return next((each for each in (device, "cpu") if each.partition(":")[0] in claim.needs), None)


def lacking(claim: Claim, device: str) -> str | None:
    """What the machine lacks for the claim, where `device` was asked for; None: nothing."""
    where = place(claim, device)
    if where is None:
        return "no GPU: torch finds no CUDA device here"
    compiles = "compiler" in claim.needs or ("inductor" in claim.needs and where == "cpu")
    command = cpp_library.compiler_command()[0]
    if compiles and not shutil.which(command):
        return f"no C++ compiler: there is no program {command!r}; install g++, or set CXX"
    return None


def check(claim: Claim, device: str, log: Path) -> tuple[ClaimRow, list[NumberRow]]:
    """Tests the claim on `device` if it speaks of that, else on the CPU, then runs its snippet.

    Each has a process of its own, whose output is added to `log`; one that fails is a failure in
    the row.
    """
    if missing := lacking(claim, device):
        return _row(claim, undecided(missing, {}), None, status=SKIPPED, reason=missing), []
    where, begin = place(claim, device), time.monotonic()
    outcome = _call("observe", claim, log, where)
    seconds = time.monotonic() - begin
    snippet = _call("run_snippet", claim, log)
    run: dict[str, Any] = {"seconds": seconds, "printed": snippet.value}
    for ended, name in ((snippet, "the snippet: "), (outcome, "")):
        if ended.kind != "returned":
            status = ended.kind.replace("usage", "failed")
            run |= {"status": status, "reason": f"{name}{ended.reason}; see {log}"}
    answer = outcome.value
    if not isinstance(answer, Answer):
        answer = Answer(UNDECIDED, outcome.reason or outcome.kind, {})
    return _row(claim, answer, where, **run), number_rows(claim.id, answer.numbers)


def _row(claim: Claim, answer: Answer, tested_on: str | None, **run: Any) -> ClaimRow:
    return ClaimRow(
        claim=claim.id,
        chapter=CHAPTER_OF[claim.id],
        statement=claim.statement,
        source=claim.source,
        needs=claim.needs,
        method=claim.method,
        verdict=answer.verdict,
        because=answer.because,
        limits=answer.limits,
        counter_example=answer.counter_example,
        tested_on=tested_on,
        snippet=claim.snippet,
        **run,
    )


def _call(function: str, claim: Claim, log: Path, *more: Any) -> isolation.Outcome:
    """In a process whose compiler caches are empty."""
    with isolation.compiler_caches("cold" if "inductor" in claim.needs else "warm") as variables:
        name = f"{__name__}:{function}"
        return isolation.call(
            name, claim.id, *more, timeout_s=LIMIT_S, log=log, variables=variables
        )


def observe(progress: Progress, claim: str, device: str) -> Answer:
    """In the child: the answer of the device, on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return CLAIMS[claim].check(find(device))


def run_snippet(progress: Progress, claim: str) -> str:
    """In the child: what the snippet prints."""
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(CLAIMS[claim].snippet, claim, "exec"), {"__name__": "__main__"})
    return printed.getvalue()

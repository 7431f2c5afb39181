"""Lists all claims. Tests a claim by running its function and its snippet in fresh processes."""

from __future__ import annotations

import contextlib
import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from modescope.bench.devices.cuda import find
from modescope.bench.records.caches import CACHES
from modescope.bench.records.errors import Progress
from modescope.bench.records.outcomes import Status
from modescope.bench.stats.estimates import Estimate
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import STATUS, ChildOutcome, Ending, T, Task
from modescope.bench.tools.claims import (
    autograd,
    compiled_speed,
    compiler,
    cuda,
    custom_ops,
    dispatch,
    dispatch_cost,
    views,
)
from modescope.bench.tools.claims.claim import Answer, Claim, Numbers, show, undecided

MODULES = (views, dispatch, dispatch_cost, autograd, compiler, compiled_speed, custom_ops, cuda)
"""Modules with claims, in the order of the page."""

CLAIMS = {
    claim.id: claim
    for module in MODULES
    for claim in vars(module).values()
    if isinstance(claim, Claim)
}
"""Every claim by its id."""

LIMIT_S = 900.0  # for a claim's function, and for a snippet


@dataclass(frozen=True)
class ClaimRow:
    """A row of the results: a claim and the verdict on this machine."""

    claim: str
    statement: str
    verdict: str  # holds | holds_within_limits | refuted | undecided
    because: str  # the reason for the verdict
    limits: tuple[str, ...]  # cases in which the statement does not hold
    counter_example: str | None  # None unless refuted
    status: Status
    reason: str | None  # why the status is not ok
    tested_on: str | None = None  # cpu | cuda | cuda:<index>
    printed: str | None = None  # what the snippet printed; None if it did not run
    seconds: float | None = None  # duration of the function's process


@dataclass(frozen=True)
class NumberRow:
    """A row of the results: one observation of a claim, a number or a text."""

    claim: str
    label: str
    number: float | None
    low: float | None  # 95 % interval
    high: float | None
    written: str  # what the page shows


def number_rows(claim: str, numbers: Numbers) -> list[NumberRow]:
    """Returns a row for each of `numbers`."""
    rows = []
    for label, value in numbers.items():
        number = low = high = None
        if isinstance(value, Estimate):
            number, low, high = value.value, value.low, value.high
        elif isinstance(value, int | float) and not isinstance(value, bool):
            number = float(value)
        rows.append(NumberRow(claim, label, number, low, high, show(value)))
    return rows


def choose_device(claim: Claim, device: str) -> str | None:
    """Returns `device` if the claim can be tested on it, else `cpu` if it can there, else None."""
    return next((name for name in (device, "cpu") if name.partition(":")[0] in claim.needs), None)


def check(claim: Claim, device: str, log: Path) -> tuple[ClaimRow, list[NumberRow]]:
    """Tests the claim on `device`, or on the CPU if it is only about the CPU. Runs its snippet.

    Both run in processes of their own, whose output is added to `log`. If either fails, the row's
    status says so.
    """
    where, begin = choose_device(claim, device), time.monotonic()
    if where is None:
        missing = "no GPU: torch finds no CUDA device here"
        return _row(claim, undecided(missing, {}), Status.SKIPPED, missing), []
    outcome = _call(Task(f"{__name__}:observe", Answer), claim, log, where)
    seconds = time.monotonic() - begin
    snippet = _call(Task(f"{__name__}:run_snippet", str), claim, log)
    status, reason = Status.OK, None
    for ended, name in ((snippet, "the snippet: "), (outcome, "")):
        if ended.kind != Ending.RETURNED:
            status = STATUS[ended.kind]
            reason = f"{name}{ended.reason}; see {log}"
    answer = outcome.value or undecided(outcome.reason or outcome.kind, {})
    row = _row(claim, answer, status, reason, where, snippet.value, seconds)
    return row, number_rows(claim.id, answer.numbers)


def _row(claim: Claim, answer: Answer, *run: Any) -> ClaimRow:
    said = answer.verdict, answer.because, answer.limits, answer.counter_example
    return ClaimRow(claim.id, claim.statement, *said, *run)


def _call(task: Task[T], claim: Claim, log: Path, *more: Any) -> ChildOutcome[T]:
    cache = CACHES["cold" if "inductor" in claim.needs else "warm"]
    with cache.variables() as variables:
        return isolation.call(
            task, claim.id, *more, timeout_s=LIMIT_S, log=log, variables=variables
        )


def observe(progress: Progress, claim: str, device: str) -> Answer:
    """Returns the answer of a claim's function on `device`. Runs in a child, on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return CLAIMS[claim].check(find(device))


def run_snippet(progress: Progress, claim: str) -> str:
    """Returns what a claim's snippet prints. Runs in a child, on one thread."""
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(CLAIMS[claim].snippet, claim, "exec"), {"__name__": "__main__"})
    return printed.getvalue()

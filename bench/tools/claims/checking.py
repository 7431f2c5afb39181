"""Runs the experiment and the snippet of a claim in fresh processes, and makes its row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from modescope.bench.sweep.process import compiler_cache, isolation
from modescope.bench.tools.claims.claim import Claim
from modescope.bench.tools.claims.figures import Figure
from modescope.bench.tools.claims.inside import DeviceResult
from modescope.bench.tools.claims.needs import lacking, on
from modescope.bench.tools.claims.table import CHAPTER_OF
from modescope.bench.tools.claims.verdict import Verdict, combined, inconclusive

OK = "ok"
SKIPPED = "skipped"  # this machine lacks what it needs
FAILED = "failed"

FIXED = "statement", "source", "needs", "measured", "rule", "snippet"
"""What a row has of its claim: no run changes it."""


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """One row: a claim and what this machine says to it."""

    claim: str
    chapter: str
    statement: str
    source: tuple[str, ...]
    needs: tuple[str, ...]
    measured: str
    rule: str
    verdict: str  # holds | holds_within_limits | refuted | undecided
    because: str
    limits: tuple[str, ...]
    counter_example: str | None  # of a refuted one
    devices: tuple[str, ...] = ()  # on which it was observed
    status: str = OK  # ok | skipped | failed | oom | timeout | crashed
    reason: str | None = None  # of another status than ok
    snippet: str
    printed: str | None = None  # by the snippet, in this run; None where it did not run
    seconds: float | None = None  # of the experiments


def check(claim: Claim, devices: Sequence[str], logs: Path) -> tuple[ClaimResult, list[Figure]]:
    """Makes the experiment on each of `devices` that the claim needs, then runs its snippet.

    Every step has a process of its own; one that fails leaves its log in `logs` and the rest goes
    on. Raises OSError where logs cannot be written.
    """
    missing = lacking(claim, devices)
    if missing:
        return _result(claim, inconclusive(missing), status=SKIPPED, reason=missing), []
    seconds = 0.0
    verdicts: dict[str, Verdict] = {}
    figures: list[Figure] = []
    failures: list[tuple[str, str]] = []  # status and reason
    for device in on(claim, devices):
        outcome = _call("observe", claim, logs, device)
        if isinstance(outcome.value, DeviceResult):
            verdicts[device] = outcome.value.verdict
            figures += outcome.value.figures
            seconds += outcome.value.seconds
        else:
            failures.append(_failure(f"on {device}", outcome))
            verdicts[device] = inconclusive(outcome.reason or failures[-1][0])
    snippet = _call("run_snippet", claim, logs)
    printed = snippet.value if snippet.kind == "returned" else None
    if printed is None:
        failures.append(_failure("the snippet", snippet))
    run = {"devices": tuple(verdicts), "printed": printed, "seconds": seconds}
    if failures:
        run |= {"status": failures[0][0], "reason": "; ".join(why for _, why in failures)}
    return _result(claim, combined(verdicts), **run), figures


def _call(function: str, claim: Claim, logs: Path, *more: str) -> isolation.Outcome:
    """In a process whose compiler caches are empty. Its log stays only where it fails."""
    log = logs / f"{claim.id}-{'-'.join([function, *more]).replace(':', '')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    with compiler_cache.of("cold" if claim.compiles else "warm") as variables:
        outcome = isolation.call(
            f"{__package__}.inside:{function}",
            *(claim.id, *more),
            timeout_s=claim.limit_s,
            log=log,
            variables=variables,
        )
    if outcome.kind == "returned":
        log.unlink(missing_ok=True)
    return outcome


def _failure(what: str, outcome: isolation.Outcome) -> tuple[str, str]:
    status = FAILED if outcome.kind == "usage" else outcome.kind
    return status, f"{what}: {outcome.reason or status}"


def _result(claim: Claim, verdict: Verdict, **run: Any) -> ClaimResult:
    of_verdict = asdict(verdict)
    return ClaimResult(
        claim=claim.id,
        chapter=CHAPTER_OF[claim.id],
        verdict=of_verdict.pop("answer"),
        **of_verdict,
        **{name: getattr(claim, name) for name in FIXED},
        **run,
    )

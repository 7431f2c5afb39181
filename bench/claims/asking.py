"""Claims put to the test, each in fresh processes; what comes back, whatever became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import isolation, leftovers
from bench.claims.claim import (
    HOLDS,
    REFUTED,
    UNDECIDED,
    Claim,
    Verdict,
    holds,
    inconclusive,
    within_limits,
)
from bench.claims.inside import Observed
from bench.claims.needs import lacking, on
from bench.claims.seen import Figure
from bench.claims.table import CHAPTER_OF

OK = "ok"
SKIPPED = "skipped"  # this machine lacks what it needs
FAILED = "failed"


@dataclass(frozen=True)
class Answer:
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
    devices: tuple[str, ...]  # on which it was observed
    status: str  # ok | skipped | failed | oom | timeout | crashed
    reason: str | None  # of another status than ok
    snippet: str
    printed: str | None  # by the snippet, in this run; None where it did not run
    seconds: float | None  # of the experiments


def ask(claim: Claim[Any], devices: Sequence[str], logs: Path) -> tuple[Answer, list[Figure]]:
    """Makes the experiment on each of `devices` that the claim needs, then runs its snippet.

    Every step has a process of its own; one that fails leaves its log in `logs` and the rest goes
    on. Raises OSError where logs cannot be written.
    """
    missing = lacking(claim, devices)
    if missing:
        return _answer(claim, inconclusive(missing), SKIPPED, missing), []
    seconds = 0.0
    verdicts: dict[str, Verdict] = {}
    found: list[Figure] = []
    failures: list[tuple[str, str]] = []  # status and reason
    for device in on(claim, devices):
        outcome = _call("observe", claim, logs, device)
        if isinstance(outcome.value, Observed):
            verdicts[device] = outcome.value.verdict
            found += outcome.value.figures
            seconds += outcome.value.seconds
        else:
            failures.append(_failure(f"on {device}", outcome))
            verdicts[device] = inconclusive(outcome.reason or failures[-1][0])
    printed = _call("run_snippet", claim, logs)
    if printed.kind != "returned":
        failures.append(_failure("the snippet", printed))
    status, reason = (
        (failures[0][0], "; ".join(why for _, why in failures)) if failures else (OK, None)
    )
    verdict = combined(verdicts)
    text = printed.value if printed.kind == "returned" else None
    return _answer(claim, verdict, status, reason, tuple(verdicts), text, seconds), found


def _call(function: str, claim: Claim[Any], logs: Path, *more: str) -> isolation.Outcome:
    """In a process whose compiler caches are empty. Its log stays only where it fails."""
    log = logs / f"{claim.id}-{'-'.join([function, *more]).replace(':', '')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    with ExitStack() as stack:
        variables = {}
        if claim.compiles:
            folder = stack.enter_context(leftovers.scratch())
            variables = {
                "TORCHINDUCTOR_CACHE_DIR": str(folder),
                "TRITON_CACHE_DIR": str(folder / "triton"),
            }
        outcome = isolation.call(
            f"bench.claims.inside:{function}",
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


def _answer(
    claim: Claim[Any],
    verdict: Verdict,
    status: str,
    reason: str | None,
    devices: tuple[str, ...] = (),
    printed: str | None = None,
    seconds: float | None = None,
) -> Answer:
    return Answer(
        claim=claim.id,
        chapter=CHAPTER_OF[claim.id],
        statement=claim.statement,
        source=claim.source,
        needs=claim.needs,
        measured=claim.measured,
        rule=claim.rule,
        verdict=verdict.answer,
        because=verdict.because,
        limits=verdict.limits,
        counter_example=verdict.counter_example,
        devices=devices,
        status=status,
        reason=reason,
        snippet=claim.snippet,
        printed=printed,
        seconds=seconds,
    )


def combined(verdicts: Mapping[str, Verdict]) -> Verdict:
    """One verdict from those of several devices: where they differ, the limits say on which.

    A device that decided nothing leaves the answer to the others and is named with its reason.
    """
    undecided = {d: each.because for d, each in verdicts.items() if each.answer == UNDECIDED}
    if len(undecided) == len(verdicts):
        return inconclusive(_by_device(undecided))
    agreed = _of_decided({d: each for d, each in verdicts.items() if d not in undecided})
    left_out = [f"on {device}: undecided, {why}" for device, why in undecided.items()]
    return replace(agreed, because="; ".join([agreed.because, *left_out]))


def _of_decided(verdicts: Mapping[str, Verdict]) -> Verdict:
    if len(verdicts) == 1:
        return next(iter(verdicts.values()))
    because = _by_device({device: each.because for device, each in verdicts.items()})
    answers = {each.answer for each in verdicts.values()}
    if answers == {HOLDS}:
        return holds(because)
    against = {
        d: each.counter_example or "" for d, each in verdicts.items() if each.answer == REFUTED
    }
    if answers == {REFUTED}:
        return Verdict(REFUTED, because, counter_example=_by_device(against))
    limits = [f"on {d}: {limit}" for d, each in verdicts.items() for limit in each.limits]
    return within_limits(because, *limits, *(f"not on {d}: {why}" for d, why in against.items()))


def _by_device(texts: Mapping[str, str]) -> str:
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"on {device}: {text}" for device, text in texts.items())

"""Verdicts of a rule, and one verdict from those of several devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

HOLDS = "holds"
WITHIN_LIMITS = "holds_within_limits"
REFUTED = "refuted"
UNDECIDED = "undecided"
ANSWERS = (HOLDS, WITHIN_LIMITS, REFUTED, UNDECIDED)


@dataclass(frozen=True)
class Verdict:
    """What a rule makes of an observation. Made by the four functions below."""

    answer: str  # one of ANSWERS
    because: str  # one sentence
    limits: tuple[str, ...] = ()  # where it no longer holds, a clause each
    counter_example: str | None = None


def holds(because: str) -> Verdict:
    """Everything observed is as stated."""
    return Verdict(HOLDS, because)


def limited(because: str, *limits: str) -> Verdict:
    """As stated where the document speaks of it; `limits` say where it is not."""
    assert limits, "a verdict within limits names them"
    return Verdict(WITHIN_LIMITS, because, limits)


def refuted(because: str, counter_example: str) -> Verdict:
    """An ordinary case contradicts the statement: `counter_example`, from this run."""
    assert counter_example, "a refutation shows its counter-example"
    return Verdict(REFUTED, because, counter_example=counter_example)


def inconclusive(reason: str) -> Verdict:
    """What was observed allows no answer, such as an interval on both sides of a bound."""
    return Verdict(UNDECIDED, reason)


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
    return limited(because, *limits, *(f"not on {d}: {why}" for d, why in against.items()))


def _by_device(texts: Mapping[str, str]) -> str:
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"on {device}: {text}" for device, text in texts.items())

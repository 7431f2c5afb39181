"""A statement, the experiment it is put to, and the rule that makes a verdict of what was seen.

The experiment (`observe`) runs torch and knows no rule; the rule (`decide`) is a pure function of
what was observed and runs nothing. Their docstrings stand on the page.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from bench.devices import Hardware

Seen = TypeVar("Seen")
"""What an experiment observes: a frozen dataclass, its fields annotated for `bench.claims.seen`."""

HOLDS = "holds"
WITHIN_LIMITS = "holds_within_limits"
REFUTED = "refuted"
UNDECIDED = "undecided"
ANSWERS = (HOLDS, WITHIN_LIMITS, REFUTED, UNDECIDED)

DEVICES = ("cpu", "cuda")
"""Those of a claim's needs on which it is observed; each gets a verdict of its own."""

LIMIT_S = 60.0


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


def within_limits(because: str, *limits: str) -> Verdict:
    """As stated where the document speaks of it; `limits` say where it is not."""
    assert limits, "a verdict within limits names them"
    return Verdict(WITHIN_LIMITS, because, limits)


def refuted(because: str, counter_example: str) -> Verdict:
    """An ordinary case contradicts the statement: `counter_example`, as seen in this run."""
    assert counter_example, "a refutation shows its counter-example"
    return Verdict(REFUTED, because, counter_example=counter_example)


def inconclusive(reason: str) -> Verdict:
    """What was observed allows no answer, such as an interval on both sides of a bound."""
    return Verdict(UNDECIDED, reason)


@dataclass(frozen=True)
class Claim(Generic[Seen]):
    """One statement of a document and how it is checked."""

    id: str
    statement: str  # as the document has it
    source: tuple[str, ...]  # "003 §6": a key of bench.claims.table.DOCUMENTS, and where in it
    needs: tuple[str, ...]  # of cpu, cuda (either of them will do) and tools (all of them)
    observe: Callable[[Hardware], Seen]
    decide: Callable[[Seen], Verdict]
    snippet: str  # Python to paste, at most ten lines, which prints something
    timed: bool  # decided by durations, so that figures differ from run to run
    compiles: bool  # waits for Inductor, or for a compiler that `needs` names
    limit_s: float  # for the observation on one device, and for the snippet

    @property
    def devices(self) -> tuple[str, ...]:
        """Where it can be observed."""
        return tuple(need for need in self.needs if need in DEVICES)

    @property
    def tools(self) -> tuple[str, ...]:
        """What else it needs."""
        return tuple(need for need in self.needs if need not in DEVICES)

    @property
    def measured(self) -> str:
        """What is observed."""
        return _told(self.observe)

    @property
    def rule(self) -> str:
        """What decides."""
        return _told(self.decide)


def _told(function: Callable[..., object]) -> str:
    """The docstring as one line."""
    return " ".join((inspect.getdoc(function) or "").split())


def claim(
    *,
    id: str,
    statement: str,
    source: tuple[str, ...],
    needs: tuple[str, ...],
    decide: Callable[[Seen], Verdict],
    snippet: str,
    timed: bool = False,
    compiles: bool = False,
    limit_s: float = LIMIT_S,
) -> Callable[[Callable[[Hardware], Seen]], Claim[Seen]]:
    """Turns the function that makes the experiment to a `Claim`, in a file of chapters/.

    What `compiles` on a CPU needs "inductor", unless `needs` names another compiler.
    """
    named = set(needs) - set(DEVICES)
    tools = ("inductor",) if compiles and "cpu" in needs and not named else ()

    def of(observe: Callable[[Hardware], Seen]) -> Claim[Seen]:
        told = inspect.cleandoc(snippet)
        every = (*needs, *tools)
        return Claim(id, statement, source, every, observe, decide, told, timed, compiles, limit_s)

    return of

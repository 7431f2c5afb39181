"""A statement, its experiment, and the rule that makes a verdict of the observation.

The experiment runs torch and knows no rule; the rule is a pure function of what was observed and
runs nothing. Their docstrings stand on the page.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.claims.figures import Observed
from modescope.bench.tools.claims.rules import (
    Expected,
    Rule,
    decided,
    figure_labels,
    figure_steps,
    rule_text,
)
from modescope.bench.tools.claims.verdict import Verdict

Values = Iterable[object]
"""What an experiment returns or yields: a value for each of a claim's figures."""

DEVICES = ("cpu", "cuda")
"""Those of a claim's needs on which it is observed; each gets a verdict of its own."""

LIMIT_S = 60.0


@dataclass(frozen=True)
class Claim:
    """One statement of a document and how it is checked."""

    id: str
    statement: str  # as the document has it
    source: tuple[str, ...]  # "003 §6": a key of `table.DOCUMENTS`, and where in it
    needs: tuple[str, ...]  # of cpu, cuda (either of them will do) and tools (all of them)
    figures: Mapping[str, str | Expected]  # name of an observed value -> label, unit, expectation
    observe: Callable[[Hardware], Observed]
    decide: Callable[[Observed], Verdict]
    measured: str  # what is observed
    rule: str  # what decides
    snippet: str  # Python to paste, at most ten lines, which prints something
    timed: bool  # decided by durations, so that figures differ from run to run
    compiles: bool  # waits for Inductor, or for a compiler that `needs` names
    limit_s: float  # for the observation on one device, and for the snippet

    def made_up(self, values: Mapping[str, Any]) -> Observed:
        """An observation of these values. Raises KeyError for one that is none of `figures`."""
        unknown = values.keys() - self.figures.keys()
        if unknown:
            raise KeyError(f"{self.id} has no figure {', '.join(sorted(unknown))}")
        return Observed(figure_labels(self.figures), values)

    @property
    def devices(self) -> tuple[str, ...]:
        """Where it can be observed."""
        return tuple(need for need in self.needs if need in DEVICES)

    @property
    def tools(self) -> tuple[str, ...]:
        """What else it needs."""
        return tuple(need for need in self.needs if need not in DEVICES)


def claim(
    statement: str,
    source: str,
    *,
    snippet: str,
    figures: Mapping[str, str | Expected],
    needs: str = "cpu",
    rule: Callable[[Observed], Rule] | None = None,
    timed: bool = False,
    compiles: bool = False,
    limit_s: float = LIMIT_S,
) -> Callable[[Callable[[Hardware], Any]], Claim]:
    """A decorator for a file of chapters/: it makes a `Claim` of the function with the experiment.

    Its name is the claim's id, with hyphens. It returns a value for each of `figures`, in their
    order. `rule` yields the steps that these do not state themselves. `source` separates places
    with "; ", `needs` words with a space. What `compiles` on a CPU needs "inductor", unless `needs`
    names another compiler.
    """
    needed = tuple(needs.split())
    named = set(needed) - set(DEVICES)
    tools = ("inductor",) if compiles and "cpu" in needed and not named else ()

    def decide(observed: Observed) -> Verdict:
        return decided(chain(figure_steps(figures, observed), rule(observed) if rule else ()))

    def of(experiment: Callable[[Hardware], Any]) -> Claim:
        def observe(device: Hardware) -> Observed:
            values = dict(zip(figures, experiment(device), strict=True))
            return Observed(figure_labels(figures), values)

        return Claim(
            experiment.__name__.replace("_", "-"),
            statement,
            tuple(source.split("; ")),
            (*needed, *tools),
            figures,
            observe,
            decide,
            _docstring(experiment),
            rule_text(figures, _docstring(rule) if rule else ""),
            inspect.cleandoc(snippet),
            timed,
            compiles,
            limit_s,
        )

    return of


def _docstring(function: Callable[..., object]) -> str:
    """The docstring as one line."""
    return " ".join((inspect.getdoc(function) or "").split())

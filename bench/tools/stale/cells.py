"""What became of processes that started with a cache of before a change, and the table of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from modescope.bench.records.outcomes import Status
from modescope.bench.sweep.starts import Timed
from modescope.bench.text import UNKNOWN, plain
from modescope.bench.tools.stale.changes import STATES

WITHOUT = "without the option"


class Outcome(StrEnum):
    """What became of a process that started with a cache of before a change."""

    REFUSED = "refused"
    COMPILED = "compiled again"
    REUSED = "reused"
    WRONG = "silently wrong"
    CRASHED = "crashed"  # or took too long; no exception of torch


@dataclass(frozen=True)
class Cell:
    """The outcome of a change for a rung; None if there is no such case. `note` belongs to it.

    `words` are torch's, or why there is no outcome.
    """

    outcome: Outcome | None = None
    note: str = ""
    words: str | None = None


def classify(timed: Timed, error: float, limit: float, traces: bool, is_option: bool) -> Cell:
    """Returns what became of a process whose result has a relative `error`, of at most `limit`.

    `traces`: whether Dynamo makes the graph again in each process with this rung. `is_option`:
    whether the process asked for an option that what was saved has not.
    """
    start = timed.start
    if start.failure:
        died = start.status in (Status.CRASHED, Status.TIMEOUT)
        return Cell(Outcome.CRASHED if died else Outcome.REFUSED, words=start.failure)
    if not error <= limit:
        return Cell(Outcome.WRONG, f"relative error {error:.2g}")
    parts = {"graph": start.graphs and not traces, "code": start.misses, "C++": timed.libraries}
    if made := [part for part, count in parts.items() if count]:
        without = [WITHOUT] if is_option and not start.misses else []
        return Cell(Outcome.COMPILED, ", ".join([*made, *without]))
    return Cell(Outcome.REUSED, WITHOUT if is_option else "")


def render(
    cells: Mapping[str, Sequence[Cell]],
    states: Sequence[str],
    table: Callable[[Sequence[str], Sequence[Sequence[str]]], str] = plain,
) -> str:
    """Returns a table of the `cells` of each rung, one for each of `states`, and its footnotes."""
    said = dict.fromkeys(cell.words for column in cells.values() for cell in column if cell.words)
    marks = {words: f"[{number}]" for number, words in enumerate(said, 1)}

    def text(cell: Cell) -> str:
        outcome = cell.outcome or ("" if cell.words else UNKNOWN)
        note = f"({cell.note})" if cell.note else ""
        return " ".join(filter(None, [outcome, note, marks.get(cell.words or "")]))

    lines = [
        [STATES[state].meaning, *map(text, row)]
        for state, row in zip(states, zip(*cells.values(), strict=True), strict=True)
    ]
    notes = [f"{mark} {words}" for words, mark in marks.items()]
    return "\n".join([table(("changed", *cells), lines), *([""] if notes else []), *notes])

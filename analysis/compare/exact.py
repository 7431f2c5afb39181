"""Compares quantities without noise: a row's status, whether its mode took effect, and counts.

A new quantity is a line of EXACT, whose name --gate then takes. A change of a count can fail a
comparison only if the processes of each study agree. Times such as `first_call_s` have noise and do
not belong here, nor does `setup_peak_bytes`, which on a CPU is read from the process's memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from modescope.analysis.format import numbers
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import value_of
from modescope.bench.records.outcomes import Status

Processes = Sequence[Row]


class ChangeKind(StrEnum):
    """How a quantity without noise changed; only WORSE can fail a comparison."""

    WORSE = "worse"
    BETTER = "better"
    REPORTED = "reported"  # neither, or the processes of a study disagree


@dataclass(frozen=True)
class ExactChange:
    """A change of a quantity without noise, such as a count of kernels."""

    quantity: str
    kind: ChangeKind
    text: str  # says what changed: `kernels 5 → 7`


@dataclass(frozen=True)
class Exact:
    """A quantity without noise, and the function that compares its values in two studies.

    `compare` takes the old and the new processes of a row. It returns the kind and the text of a
    change, or None without a change. `meaning` says in a few words what a failure means. If
    `always` is true, the gate `exact` checks the quantity; otherwise a gate named like the quantity
    does.
    """

    name: str
    compare: Callable[[Processes, Processes], tuple[ChangeKind, str] | None]
    meaning: str
    always: bool = False


def find_changes(old: Processes, new: Processes) -> list[ExactChange]:
    """Returns the changes between the old and the new processes of a row.

    If one study lacks the row, that is the only change.
    """
    if not old:
        return [ExactChange("row", ChangeKind.REPORTED, "not in the old results")]
    if not new:
        ok = any(row["status"] == Status.OK for row in old)
        kind = ChangeKind.WORSE if ok else ChangeKind.REPORTED
        return [ExactChange("row", kind, "not in the new results")]
    found = ((quantity.name, quantity.compare(old, new)) for quantity in EXACT)
    return [ExactChange(name, *change) for name, change in found if change]


def _status(old: Processes, new: Processes) -> tuple[ChangeKind, str] | None:
    before, after = ([row for row in rows if row["status"] != Status.OK] for rows in (old, new))
    if not after:
        none_was = len(before) == len(old)
        return (ChangeKind.BETTER, f"ok, was {_statuses(before)}") if none_was else None
    if len(before) == len(old):  # none was ok
        same = {row["status"] for row in before} == {row["status"] for row in after}
        return None if same else (ChangeKind.REPORTED, f"{_statuses(before)} → {_statuses(after)}")
    where = f" in {len(after)} of {len(new)} processes" if len(new) > 1 else ""
    why = " ".join((after[0]["reason"] or "no reason was recorded").split())
    kind = ChangeKind.REPORTED if before and len(after) < len(new) else ChangeKind.WORSE
    return kind, f"no longer ok: {_statuses(after)}{where} ({why})"


def _statuses(rows: Processes) -> str:
    return " and ".join(Counter(row["status"] for row in rows))


def _in_effect(old: Processes, new: Processes) -> tuple[ChangeKind, str] | None:
    before, after = ({row["in_effect"] for row in _ok(rows)} for rows in (old, new))
    if before == {True} and False in after:
        note = next(row["in_effect_note"] for row in _ok(new) if row["in_effect"] is False)
        return ChangeKind.WORSE, f"no longer in effect: {note or 'no note was recorded'}"
    return (ChangeKind.BETTER, "now in effect") if before == {False} and after == {True} else None


def _graphs_lost(old: Processes, new: Processes) -> tuple[ChangeKind, str] | None:
    """Compares as `Exact.compare`: WORSE if a compiled mode makes no graph any more, else None.

    Such a mode has no graph breaks, so their count does not show it.
    """
    before, after = (_counts(rows, "graphs") for rows in (old, new))
    if new[0]["compile_mode"] == "none" or after != {0}:
        return None
    return None if before == {0} else (ChangeKind.WORSE, "torch.compile made no graph at all")


def _count(
    name: str,
    title: str,
    text: Callable[[float], str] = numbers.count,
    always: bool = False,
) -> Exact:
    """Returns the Exact of column `name`, a count or a size of which more is worse.

    `title` names it in texts, and `text` formats a value. `always` is as in Exact.
    """

    def compare(old: Processes, new: Processes) -> tuple[ChangeKind, str] | None:
        before, after = _counts(old, name), _counts(new, name)
        if not before or not after or before == after:
            return None
        shown = f"{title} {_range(before, text)} → {_range(after, text)}"
        if len(before) > 1 or len(after) > 1:
            return ChangeKind.REPORTED, f"{shown} (processes disagree)"
        return (ChangeKind.WORSE if max(after) > max(before) else ChangeKind.BETTER), shown

    return Exact(name, compare, f"more {title}", always)


def _range(values: set[float], text: Callable[[float], str]) -> str:
    return " to ".join(text(value) for value in sorted({min(values), max(values)}))


def _bytes(size: float) -> str:
    return f"{size:,.0f} B"  # a small change would not show in MiB


def _ok(rows: Processes) -> list[Row]:
    return [row for row in rows if row["status"] == Status.OK]


def _counts(rows: Processes, name: str) -> set[float]:
    return {value for row in _ok(rows) if (value := value_of(row, name)) is not None}


EXACT = (
    Exact("status", _status, "no longer ok", always=True),
    Exact("in_effect", _in_effect, "no longer in effect", always=True),
    Exact("compiled", _graphs_lost, "compiled nothing", always=True),
    _count("graph_breaks", "graph breaks", always=True),
    _count("recompiles", "compilations in the timed window", always=True),
    _count("graphs", "graphs"),
    _count("kernels", "kernels"),
    _count("launches", "launches"),
    _count("generated_kernels", "generated kernels"),
    _count("bytes_accessed", "bytes accessed", _bytes),
    _count("allocations_per_call", "allocations per call"),
    _count("step_peak_bytes", "peak of a step", _bytes),
    _count("flops", "flops"),
)

ALWAYS = ("row", *(quantity.name for quantity in EXACT if quantity.always))
ON_REQUEST = tuple(quantity.name for quantity in EXACT if not quantity.always)
MEANING = {"row": "missing"} | {quantity.name: quantity.meaning for quantity in EXACT}

"""Which part of a training step is the longest, and which does a mode shorten? In sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from analysis import intervals, numbers, words
from analysis import training as made_of
from analysis.training import PARTS, Faster, parts_of
from analysis.words import Row
from bench import stats
from bench.stats import Estimate

_OPEN = "left open by the intervals"
_UNTOLD = {
    "equivalent": f"within ±{numbers.whole_percent(stats.MARGIN)}",
    "inconclusive": _OPEN,
}


def reading(section: pd.DataFrame) -> str | None:
    """What the parts of a step say; None where no step is known by its parts."""
    rows = made_of.charted(section)
    if not rows:
        return None
    known = [row for row in rows if row["parts_ratio"] is not None]
    whole = [row for row in rows if row["parts_ratio"] is None]
    told = [
        f"Longest part, with its share of all parts: {_longest(known)}",
        *_gained(made_of.against_eager(section)),
        _added_up(known),
    ]
    told += [f"Not taken apart: {_by_note(whole, 'nothing says why')}"] if whole else []
    noted = [row for row in known if row["parts_note"]]
    told += [f"To know about the parts: {_by_note(noted, '')}"] if noted else []
    return " ".join(f"{sentence}." for sentence in told)


def _longest(rows: Sequence[Row]) -> str:
    """`backward in eager fp32 (52 %) and amp bf16 (50 %); optimizer in compile fp32 (46 %)`."""
    found: dict[str, list[str]] = {name: [] for name in (*PARTS, _OPEN)}
    for row in rows:
        longest, told = _longest_of(row), words.variant(row)
        if longest is not None:
            every_s = sum(row[f"{name}_s"] for name in parts_of(row))
            told += f" ({numbers.share(row[f'{longest}_s'], every_s)})"
        found[longest or _OPEN].append(told)
    return _listed({name: words.listed(modes) for name, modes in found.items() if modes}, " in ")


def _longest_of(row: Row) -> str | None:
    """The longest part, if its interval lies above those of the others."""
    times = {name: made_of.estimate(row, name) for name in parts_of(row)}
    longest, *others = sorted(times, key=lambda name: row[f"{name}_s"], reverse=True)
    return longest if all(_is_above(times[longest], times[name]) for name in others) else None


def _is_above(one: Estimate | None, other: Estimate | None) -> bool:
    off = intervals.difference(one, other)
    return off is not None and off.low is not None and off.low > 0


def _gained(found: Sequence[Faster]) -> Iterator[str]:
    """Part by part, what each mode does to it: a sentence for each reference."""
    references = dict.fromkeys(words.variant(one.reference) for one in found)
    for reference in references:
        modes = [one for one in found if words.variant(one.reference) == reference]
        parts = {name: gains for name in PARTS if (gains := _of_part(name, modes))}
        yield f"Times as fast as in {reference}: {_listed(parts, ' ')}"


def _of_part(name: str, modes: Iterable[Faster]) -> str:
    """`1.48× in compile fp32, left open by the intervals in amp bf16`; empty where unknown."""
    found: dict[str, list[str]] = {}
    for one in modes:
        if (gain := one.parts[name]) is not None:
            told = _UNTOLD.get(stats.verdict(gain) or "inconclusive", numbers.factor(gain.value))
            found.setdefault(told, []).append(words.variant(one.row))
    return ", ".join(f"{gain} in {words.listed(names)}" for gain, names in found.items())


def _added_up(rows: Sequence[Row]) -> str:
    """How far the parts are from the step itself, at both extremes."""
    ordered = sorted(rows, key=lambda row: row["parts_ratio"])
    ends = [
        f"{numbers.share(row['parts_ratio'], 1)} ({words.variant(row)})"
        for row in (ordered[0], ordered[-1])
    ]
    told = " to ".join(ends if len(ordered) > 1 else ends[:1])
    return f"Each waited for, the parts add up to {told} of the undivided step"


def _by_note(rows: Iterable[Row], unknown: str) -> str:
    """`cuda-graph fp32 (the step is one graph)`: the modes of each note."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["parts_note"] or unknown, []).append(words.variant(row))
    return "; ".join(f"{', '.join(modes)} ({note})" for note, modes in found.items())


def _listed(told: Mapping[str, str], between: str) -> str:
    return "; ".join(f"{name}{between}{text}" for name, text in told.items())

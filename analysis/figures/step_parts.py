"""The parts of a training step above the whole step, and the gain of each mode in each part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from modescope.analysis.derive.select import SAME_BASELINE, is_plain, values_of
from modescope.analysis.figures.draw.bars import Lane, Look, bars, length_axis
from modescope.analysis.figures.draw.canvas import MOST_ROWS, Entry, and_more
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.figures.section import charted, table_of
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.columns import Column
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table
from modescope.bench.stats import estimates, intervals
from modescope.bench.stats.estimates import Estimate
from modescope.bench.summary import STEP_PARTS, parts_of

_FOOT = "upper bar: the parts, timed separately, each synchronised; lower bar: the whole step"
# Each part has the colour of the memory that it needs.
_LOOKS = {
    "forward": Look("forward and loss", style.FADED),
    "backward": Look("backward", style.ACTIVATIONS),
    "optimizer": Look("optimizer", style.OPTIMIZER),
    "scaler": Look("GradScaler", style.OPTIMIZER, "////"),
    "undivided": Look("whole step", None),
}
_OPEN = "undecided by the intervals"
_UNDECIDED = {
    "equivalent": f"within ±{numbers.whole_percent(estimates.MARGIN)}",
    "inconclusive": _OPEN,
}


_SAME_WORK = (*SAME_BASELINE, "grad")


@dataclass(frozen=True)
class PartGains:
    """The speedup of each part of a mode over plain eager's part; None where unknown."""

    row: Row
    reference: Row
    parts: Mapping[str, Estimate | None]


def rows_with_parts(section: pd.DataFrame) -> list[Row]:
    """The charted rows of a SECTION; none if no step was timed by parts.

    Includes steps that could not be split, which are shown as a whole.
    """
    rows = charted(section)
    return rows if any(row["parts_ratio"] is not None for row in rows) else []


def gains_over_eager(section: pd.DataFrame) -> list[PartGains]:
    """The gain of each mode of a SECTION in each part, in the order of figures.

    The reference is plain eager with the same options, grad axis and baseline, at the baseline's
    dtype. Speeds differ between processes, so no raw times are compared: a part counts by its share
    of the step in the same block, and the step by its paired speedup over the baseline in that
    process. Intervals are the worst case of their inputs'.
    """
    rows = [row for row in charted(section) if row["parts_ratio"] is not None]
    references = {values_of(row, _SAME_WORK): row for row in rows if _is_reference(row)}
    pairs = ((row, references.get(values_of(row, _SAME_WORK))) for row in rows)
    return [
        PartGains(row, reference, _gains(row, reference))
        for row, reference in pairs
        if reference is not None and not _is_reference(row)
    ]


def _is_reference(row: Row) -> bool:
    return is_plain(row) and bool(row["dtype"] == row["baseline_dtype"])


def _gains(row: Row, reference: Row) -> dict[str, Estimate | None]:
    faster = intervals.quotient(*(intervals.of_columns(r, "speedup") for r in (row, reference)))
    shares = {name: (_share(reference, name), _share(row, name)) for name in STEP_PARTS}
    return {
        name: intervals.product(faster, intervals.quotient(*both)) for name, both in shares.items()
    }


def _share(row: Row, name: str) -> Estimate | None:
    """What a part takes of its step."""
    column = f"{name}_share"
    return None if row[column] is None else intervals.of_columns(row, column)


def draw(section: pd.DataFrame) -> Figure | None:
    """Stacked bars of the parts above the whole step; None if no step of a SECTION has parts.

    Both bars begin at 0, so their ends show the difference between the sum of the parts and the
    step. A step that could not be split has only the lower bar.
    """
    rows = rows_with_parts(section)
    if not rows:
        return None
    entries = [Entry(phrases.variant(row), _numbers(row), row) for row in rows[:MOST_ROWS]]
    drawn = [(entry, _lanes(row)) for entry, row in zip(entries, rows, strict=False)]
    foot = and_more(_FOOT, len(rows) - len(drawn))
    with matplotlib.rc_context(style.RC):
        stack, axes = bars(
            "Parts of a training step", drawn, _LOOKS, f"{foot}\n{phrases.work(rows[0])}"
        )
        length_axis(axes, numbers.tick)
    return stack.figure


def _lanes(row: Row) -> list[Lane]:
    known = parts_of(row) if row["parts_ratio"] is not None else ()
    upper = [(name, row[f"{name}_paired_s"]) for name in known]
    return [upper, [("undivided", row["latency_paired_s"])]]


def _numbers(row: Row) -> str:
    step = f"step {numbers.duration(row['latency_paired_s'])}"
    if row["parts_ratio"] is None:
        return f"{step}, not split"
    return f"{step}, parts {numbers.share(row['parts_ratio'], 1)} of it"


def caption(section: pd.DataFrame) -> str | None:
    """The longest part of each step, the gains in each part, and the sum of the parts.

    None if no step was timed by parts.
    """
    rows = rows_with_parts(section)
    if not rows:
        return None
    known = [row for row in rows if row["parts_ratio"] is not None]
    whole = [row for row in rows if row["parts_ratio"] is None]
    sentences = [
        f"Longest part (share of the step): {_longest(known)}",
        *_gained(gains_over_eager(section)),
        _added_up(known),
    ]
    sentences += [f"Not split into parts: {phrases.with_reasons(whole, _note)}"] if whole else []
    noted = [row for row in known if row["parts_note"]]
    sentences += [f"Notes on the parts: {phrases.with_reasons(noted, _note)}"] if noted else []
    return " ".join(f"{sentence}." for sentence in sentences)


def _longest(rows: Sequence[Row]) -> str:
    """`backward in eager fp32 (52 %) and amp bf16 (50 %); optimizer in compile fp32 (46 %)`."""
    modes: dict[str, list[str]] = {name: [] for name in (*STEP_PARTS, _OPEN)}
    for row in rows:
        longest, mode = _longest_of(row), phrases.variant(row)
        if longest is not None:
            mode += f" ({numbers.share(row[f'{longest}_share'], 1)})"
        modes[longest or _OPEN].append(mode)
    return _listed({name: phrases.listed(those) for name, those in modes.items() if those}, " in ")


def _longest_of(row: Row) -> str | None:
    """The longest part, if its interval lies above all others."""
    shares = {name: _share(row, name) for name in parts_of(row)}
    longest, *others = sorted(shares, key=lambda name: row[f"{name}_share"], reverse=True)
    return longest if all(_is_above(shares[longest], shares[name]) for name in others) else None


def _is_above(one: Estimate | None, other: Estimate | None) -> bool:
    difference = intervals.difference(one, other)
    return difference is not None and difference.low is not None and difference.low > 0


def _gained(gains: Sequence[PartGains]) -> Iterator[str]:
    """A sentence for each reference: the speedup of each mode, part by part."""
    for reference, modes in phrases.grouped(
        (phrases.variant(one.reference), one) for one in gains
    ).items():
        parts = {name: factors for name in STEP_PARTS if (factors := _of_part(name, modes))}
        yield f"Speedup over {reference}, by part: {_listed(parts, ' ')}"


def _of_part(name: str, gains: Iterable[PartGains]) -> str:
    """`1.48× in compile fp32, undecided by the intervals in amp bf16`; empty where unknown."""
    modes = phrases.grouped(
        (_factor(gain), phrases.variant(one.row))
        for one in gains
        if (gain := one.parts[name]) is not None
    )
    return ", ".join(f"{factor} in {phrases.listed(names)}" for factor, names in modes.items())


def _factor(gain: Estimate) -> str:
    return _UNDECIDED.get(estimates.verdict(gain) or "inconclusive", numbers.factor(gain.value))


def _added_up(rows: Sequence[Row]) -> str:
    """The sum of the parts as a share of the step, least and greatest."""
    ordered = sorted(rows, key=lambda row: row["parts_ratio"])
    ends = [
        f"{numbers.share(row['parts_ratio'], 1)} ({phrases.variant(row)})"
        for row in (ordered[0], ordered[-1])
    ]
    extremes = " to ".join(ends if len(ordered) > 1 else ends[:1])
    return f"Each synchronised, the parts add up to {extremes} of the whole step"


def _note(row: Row) -> str:
    return row["parts_note"] or "no reason was recorded"


def _listed(clauses: Mapping[str, str], between: str) -> str:
    return "; ".join(f"{name}{between}{text}" for name, text in clauses.items())


def table(section: pd.DataFrame) -> Table:
    """The share of each part in the step, the whole step, and the sum of the parts."""
    return table_of("Parts", section, _COLUMNS)


def _part(name: str) -> Column:
    title = f"{_LOOKS[name].name} ÷ step [95 %]"
    return Column(title, partial(cells.share, name=f"{name}_share"), optional=True)


_COLUMNS = (
    *map(_part, STEP_PARTS),
    Column("whole step [95 %]", cells.latency),
    Column("sum of parts ÷ step [95 %]", partial(cells.share, name="parts_ratio")),
)


FIGURE = FigureKind(
    "parts", "Parts of a training step",
    "stacked bars of forward, backward and optimizer above the whole step", draw, caption, table,
)  # fmt: skip

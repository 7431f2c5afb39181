"""Rows as tables: a call of each op, and entering a mode."""

from __future__ import annotations

from collections.abc import Sequence

from bench.instructions.cells import ENTER, WIDTH
from bench.instructions.profile import PARTS
from bench.instructions.rows import PerBlock, Row, typical
from bench.pages import UNKNOWN, Section

CALLS = (
    f"Operands are {WIDTH} × {WIDTH}, float32. w is a parameter made before the mode is entered; "
    "x is an activation, computed from w inside the mode, or an input, made before. The mode is "
    "entered once for all calls; autocast keeps no cache, so that each call casts its weight as a "
    "forward does."
)
COUNTED = (
    " Instructions are the median over blocks, less those of an empty call. over: above the mode "
    "with the fewest, for the same op and x. spread: range over blocks, wide where malloc tidied "
    "its heap in one of them. What follows is whose they are: Python's, of torch's bindings "
    "(arguments and results), of torch itself (dispatcher, autograd, kernels), of system libraries "
    "(above all malloc)."
)
SEEN = " The keys are computed from torch's tables; where callgrind saw others run, ≠ and those."
ENTERING = "From the state a program starts in, as a user writes it with `with`."

LABELS = ("op", "x", "mode")
FIGURES = ("instructions", "over", "spread", *PARTS)


def sections(rows: Sequence[Row]) -> list[Section]:
    """A table of calls; where instructions were counted, one of entering a mode too."""
    entering = [row for row in rows if row.op == ENTER and row.instructions]
    return [
        _calls([row for row in rows if row.op != ENTER]),
        *([_entering(entering)] if entering else []),
    ]


def _calls(rows: Sequence[Row]) -> Section:
    title = "A call of each op"
    if any(row.instructions for row in rows):
        lines = [[*_labels(row), *_figures(row, rows), _keys(row)] for row in rows]
        return Section(title, CALLS + COUNTED + SEEN, (*LABELS, *FIGURES, "keys"), lines)
    return Section(title, CALLS, (*LABELS, "keys"), [[*_labels(row), _keys(row)] for row in rows])


def _entering(rows: Sequence[Row]) -> Section:
    lines = [[row.mode, _whole(typical(row.instructions))] for row in rows]
    return Section("Entering and leaving a mode", ENTERING, ("mode", "instructions"), lines)


def over_leanest(row: Row, among: Sequence[Row]) -> float | None:
    """Instructions above those of the leanest mode of the same op and x; None where not counted."""
    peers = [typical(each.instructions) for each in among if (each.op, each.x) == (row.op, row.x)]
    own, known = typical(row.instructions), [count for count in peers if count is not None]
    return None if own is None else own - min(known)


def _labels(row: Row) -> list[str]:
    return [row.op, row.x or UNKNOWN, row.mode]


def _figures(row: Row, among: Sequence[Row]) -> list[str]:
    return [
        _whole(typical(row.instructions)),
        _whole(over_leanest(row, among)),
        _spread(row.instructions),
        *(_whole(typical(getattr(row, part))) for part in PARTS),
    ]


def _keys(row: Row) -> str:
    path = " → ".join(row.keys or ()) or UNKNOWN
    agree = row.keys_seen is None or row.keys_seen == row.keys
    return path if agree else f"{path} ≠ {' → '.join(row.keys_seen or ())}"


def _whole(count: float | None) -> str:
    return UNKNOWN if count is None else f"{count:,.0f}"


def _spread(counts: PerBlock) -> str:
    middle = typical(counts)
    return f"{(max(counts) - min(counts)) / middle:.1%}" if counts and middle else UNKNOWN

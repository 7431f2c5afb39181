"""The tables: a call of each op, and entering a mode."""

from __future__ import annotations

from collections.abc import Sequence

from modescope.bench.text.tables import UNKNOWN, Section
from modescope.bench.tools.instructions.cells import ENTER, WIDTH
from modescope.bench.tools.instructions.profile import PARTS
from modescope.bench.tools.instructions.rows import CallRow, PerBlock, typical

CALLS = (
    f"Operands are {WIDTH} × {WIDTH}, float32. w is a parameter made before the mode is entered; "
    "x is an activation, computed from w inside the mode, or an input, made before. The mode is "
    "entered once for all calls; autocast's cache is off, so that each call casts its weight as a "
    "forward does."
)
COUNTED = (
    " instructions: median over blocks, minus those of an empty call. excess: over the mode with "
    "the fewest, for the same op and x. spread: range over blocks, which is wide if malloc "
    "consolidates its heap in one of them. The other columns split the instructions: interpreter "
    "(Python), bindings (torch's arguments and results), torch (dispatcher, autograd, kernels) and "
    "system (other libraries, mostly malloc)."
)
KEYS_NOTE = (
    " keys: computed from torch's tables; ≠ marks those that ran under callgrind if they differ."
)
ENTERING = "Entering a mode with `with`, from the initial state of a program, and leaving it."

LABELS = ("op", "x", "mode")
FIGURES = ("instructions", "excess", "spread", *PARTS)


def sections(rows: Sequence[CallRow]) -> list[Section]:
    """A table of calls; if instructions were counted, also one of entering a mode."""
    entering = [row for row in rows if row.op == ENTER and row.instructions]
    return [
        _calls([row for row in rows if row.op != ENTER]),
        *([_entering(entering)] if entering else []),
    ]


def _calls(rows: Sequence[CallRow]) -> Section:
    title = "A call of each op"
    if any(row.instructions for row in rows):
        lines = [[*_labels(row), *_figures(row, rows), _keys(row)] for row in rows]
        return Section(title, CALLS + COUNTED + KEYS_NOTE, (*LABELS, *FIGURES, "keys"), lines)
    return Section(title, CALLS, (*LABELS, "keys"), [[*_labels(row), _keys(row)] for row in rows])


def _entering(rows: Sequence[CallRow]) -> Section:
    lines = [[row.mode, _whole(typical(row.instructions))] for row in rows]
    return Section("Entering and leaving a mode", ENTERING, ("mode", "instructions"), lines)


def over_leanest(row: CallRow, among: Sequence[CallRow]) -> float | None:
    """Instructions over those of the leanest mode of the same op and x; None if not counted."""
    peers = [typical(each.instructions) for each in among if (each.op, each.x) == (row.op, row.x)]
    own, known = typical(row.instructions), [count for count in peers if count is not None]
    return None if own is None else own - min(known)


def _labels(row: CallRow) -> list[str]:
    return [row.op, row.x or UNKNOWN, row.mode]


def _figures(row: CallRow, among: Sequence[CallRow]) -> list[str]:
    return [
        _whole(typical(row.instructions)),
        _whole(over_leanest(row, among)),
        _spread(row.instructions),
        *(_whole(typical(getattr(row, part))) for part in PARTS),
    ]


def _keys(row: CallRow) -> str:
    path = " → ".join(row.keys or ()) or UNKNOWN
    agree = row.keys_seen is None or row.keys_seen == row.keys
    return path if agree else f"{path} ≠ {' → '.join(row.keys_seen or ())}"


def _whole(count: float | None) -> str:
    return UNKNOWN if count is None else f"{count:,.0f}"


def _spread(counts: PerBlock) -> str:
    middle = typical(counts)
    return f"{(max(counts) - min(counts)) / middle:.1%}" if counts and middle else UNKNOWN

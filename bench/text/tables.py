"""Tables as Markdown and as plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modescope.bench.text.markup import prose

UNKNOWN = "–"
"""What a cell shows for an unknown value."""

NUMBER = re.compile(rf"[-+]?\d[\d,]*(\.\d+)? ?%?|{UNKNOWN}")
"""A column is right-aligned if this matches all its cells: numbers, shares or UNKNOWN."""


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with numbers right-aligned; cells go through `markup.prose`."""
    ruler = ["--:" if right else "---" for right in _numeric(headers, rows)]
    cells = (list(map(prose, line)) for line in (headers, ruler, *rows))
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def seconds(value: float) -> str:
    """A time `value` in seconds as text with three digits: `31.4 µs`, `3.21 ms`, `1.25 s`."""
    scales = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
    scale, unit = next((each for each in scales if abs(value) >= 0.9995 * each[0]), scales[0])
    return f"{value / scale:.3g} {unit}"


def plain(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as plain text with aligned columns."""
    columns = zip(headers, *rows, strict=True)
    padded = [
        [cell.rjust(width) if right else cell.ljust(width) for cell in column]
        for column, right in zip(columns, _numeric(headers, rows), strict=True)
        for width in [max(map(len, column))]
    ]
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))


def _numeric(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """Whether all cells of each column are numbers."""
    columns = list(zip(headers, *rows, strict=True))
    return [all(NUMBER.fullmatch(cell) for cell in column[1:]) for column in columns]

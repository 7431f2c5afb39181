"""The mark beside a mode's name: its marker and colour in every figure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from numpy.typing import NDArray

from modescope.analysis.format import style
from modescope.analysis.format.phrases import Row

_CODES = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}


@dataclass(frozen=True)
class Glyph:
    """A symbol of the page, its CSS class for the colour, and a similar character."""

    symbol: str
    colour: str
    character: str


def glyph(row: Row) -> Glyph:
    """The glyph of a row's mode."""
    place = style.FAMILIES.index(style.family(row))
    marker = style.marker(row)
    return Glyph(_symbol(marker), f"family-{place}", style.CHARACTERS[marker])


def symbols() -> dict[str, str]:
    """Name of each symbol -> its outline as an SVG path, in a box from -1 to 1."""
    return {_symbol(marker): _outline(marker) for marker in style.CHARACTERS}


def colours() -> dict[str, str]:
    """CSS class -> colour."""
    return {f"family-{place}": family.colour for place, family in enumerate(style.FAMILIES)}


def _symbol(marker: str) -> str:
    return f"marker-{list(style.CHARACTERS).index(marker)}"


def _outline(marker: str) -> str:
    shape = MarkerStyle(marker)
    path = shape.get_path().transformed(shape.get_transform())
    reach = float(np.abs(path.vertices).max())
    scale = (1 / reach, -1 / reach)  # the y axis of SVG points down
    steps = []
    for points, code in path.iter_segments(curves=True, simplify=False):
        ends = " ".join(f"{value:g}" for value in _rounded(points, scale))
        steps.append("Z" if code == Path.CLOSEPOLY else f"{_CODES[code]}{ends}")
    return "".join(steps)


def _rounded(points: NDArray[np.float64], scale: tuple[float, float]) -> list[float]:
    """The x and y of each point in one list, without negative zeros."""
    flat: list[float] = (np.round(points.reshape(-1, 2) * scale, 3) + 0.0).ravel().tolist()
    return flat

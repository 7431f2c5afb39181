"""How a mode looks beside its name: the marker and the colour that it has in every figure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from numpy.typing import NDArray

from analysis import style
from analysis.words import Row

_CODES = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}


@dataclass(frozen=True)
class Glyph:
    """A symbol of the page, the class that colours it, and a character that resembles it."""

    symbol: str
    colour: str
    character: str


def glyph(row: Row) -> Glyph:
    """That of a row's mode."""
    place = style.FAMILIES.index(style.family(row))
    marker = style.marker(row)
    return Glyph(_symbol(marker), f"family-{place}", style.CHARACTERS[marker])


def symbols() -> dict[str, str]:
    """Symbol -> its outline as an SVG path, in a box from -1 to 1."""
    return {_symbol(marker): _outline(marker) for marker in style.CHARACTERS}


def colours() -> dict[str, str]:
    """Class -> colour."""
    return {f"family-{place}": family.colour for place, family in enumerate(style.FAMILIES)}


def _symbol(marker: str) -> str:
    return f"marker-{list(style.CHARACTERS).index(marker)}"


def _outline(marker: str) -> str:
    shape = MarkerStyle(marker)
    path = shape.get_path().transformed(shape.get_transform())
    reach = float(np.abs(path.vertices).max())
    scale = (1 / reach, -1 / reach)  # the y of a page runs down
    steps = []
    for points, code in path.iter_segments(curves=True, simplify=False):
        ends = " ".join(f"{value:g}" for value in _rounded(points, scale))
        steps.append("Z" if code == Path.CLOSEPOLY else f"{_CODES[code]}{ends}")
    return "".join(steps)


def _rounded(points: NDArray[np.float64], scale: tuple[float, float]) -> list[float]:
    """The x and y in turn, without a negative zero."""
    flat: list[float] = (np.round(points.reshape(-1, 2) * scale, 3) + 0.0).ravel().tolist()
    return flat

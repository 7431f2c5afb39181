"""The look of a mode in every figure: a colour per family of modes, a marker per preset."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row

INK = "#24292f"  # text and lines; pages replace it with their own (`figures.theme.inline`)
FADED = "#8c959f"


@dataclass(frozen=True)
class Family:
    """A group of modes that save time by the same means, and so are drawn in the same colour.

    `name` is the name of the colour and `modes` describes the modes, as in `grey: eager code`.
    FAMILIES has the order of rows in figures.
    """

    name: str  # of its colour
    modes: str  # which modes it has
    colour: str


# Okabe and Ito, Color Universal Design (2008): distinct for any colour vision. Each has a contrast
# of at least 3 against both a white and a near-black page.
EAGER = Family("grey", "eager code, with or without autograd", "#7f7f7f")
AMP = Family("orange", "autocast", "#d55e00")
COMPILE = Family("blue", "compiled", "#0072b2")
COMPILE_GRAPHS = Family("green", "compiled with CUDA graphs", "#009e73")
CUDA_GRAPH = Family("pink", "captured by hand", "#cc79a7")
FEWER_BITS = Family("brown", "weights of fewer bits", "#8f6b1f")
FAMILIES = (EAGER, AMP, COMPILE, FEWER_BITS, COMPILE_GRAPHS, CUDA_GRAPH)

Marker = (
    str | tuple[int, int, int]
)  # of matplotlib: a name, or the points, kind and angle of a star

MARKERS: dict[str, Marker] = {
    "eager": "o",
    "no_grad": "s",
    "inference_mode": "D",
    "amp": "^",
    "compile": "v",
    "regional": (12, 1, 0),
    "int8-dynamic": (10, 1, 0),
    "int8-weights": (4, 1, 45),
    "compile-dynamic": (4, 1, 0),
    "compile-static": "X",
    "padded": "H",
    "freezing": (6, 1, 0),
    "max-autotune-no-cudagraphs": "<",
    "max-autotune-freezing": (8, 1, 0),
    "amp-compile": ">",
    "reduce-overhead": "p",
    "max-autotune": "h",
    "compile-cuda-graph": "*",
    "cuda-graph": "P",
    "aoti": "d",
}
"""A marker per preset; `padded` stands for modes whose calls are padded."""

OTHER_MARKER = "8"
# marker -> the character for it in plain text; U+FE0E prevents that it is shown as an emoji
CHARACTERS: dict[Marker, str] = {
    "o": "●",
    "s": "■",
    "D": "◆",
    "^": "▲",
    "v": "▼",
    "<": "◀\ufe0e",
    ">": "▶\ufe0e",
    "p": "⬟",
    "h": "⬢",
    "*": "★",
    "P": "✚",
    "d": "♦\ufe0e",
    "X": "✖\ufe0e",
    "H": "⬣",
    "8": "⯃",
    (4, 1, 0): "✦",
    (6, 1, 0): "✶",
    (8, 1, 0): "✸",
    (12, 1, 0): "✹",
    (10, 1, 0): "✺",
    (4, 1, 45): "✣",
}


def family(row: Row) -> Family:
    """Returns the Family of a row, by its options `quantize`, `compile_mode`, `graph`, `autocast`.

    Where one of these was overridden, the name of the mode may suggest another family.
    """
    if row["quantize"]:
        return FEWER_BITS
    if row["compile_mode"] == "none":
        return CUDA_GRAPH if predicates.captures(row) else AMP if row["autocast"] else EAGER
    return COMPILE_GRAPHS if predicates.captures(row) else COMPILE


def colours(families: Collection[Family] = FAMILIES) -> str:
    """Returns what the colours of `families` mean: `grey: eager code; blue: compiled`."""
    return "; ".join(f"{entry.name}: {entry.modes}" for entry in FAMILIES if entry in families)


def order(row: Row) -> tuple[int, int]:
    """Returns a sorting key for the order of rows in figures.

    It has the position of the row's family in FAMILIES, then of its mode in MARKERS. The mode is
    named without the options that were overridden.
    """
    preset, presets = _preset(row), list(MARKERS)
    place = presets.index(preset) if preset in MARKERS else len(presets)
    return FAMILIES.index(family(row)), place


def marker(row: Row) -> Marker:
    """Returns the marker of a row's mode in figures; overridden options do not change it."""
    return MARKERS.get(_preset(row), OTHER_MARKER)


def _preset(row: Row) -> str:
    is_padded = row.get("calls_pad") not in (None, "{}")
    return "padded" if is_padded else str(row["mode"]).partition("[")[0]

"""How a mode looks in every figure: one colour per family, one marker per preset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.words import Row

INK = "#24292f"  # text and lines; `plots.svg` lets a page replace it
FADED = "#8c959f"


@dataclass(frozen=True)
class Family:
    """Modes that speed up by the same means; the order of FAMILIES is that of rows in figures."""

    name: str
    colour: str


# Okabe and Ito, Color Universal Design (2008): told apart with any colour vision, and each has a
# contrast of at least 3 against both a white and a near-black page.
EAGER = Family("eager", "#7f7f7f")
AMP = Family("amp", "#d55e00")
COMPILE = Family("compile", "#0072b2")
COMPILE_GRAPHS = Family("compile + graphs", "#009e73")
CUDA_GRAPH = Family("cuda-graph", "#cc79a7")
FAMILIES = (EAGER, AMP, COMPILE, COMPILE_GRAPHS, CUDA_GRAPH)

# compile axis -> whether the compiler itself uses CUDA graphs
_COMPILES_TO_GRAPHS = {"reduce-overhead": True, "max-autotune": True}

MARKERS = {
    "eager": "o",
    "no_grad": "s",
    "inference_mode": "D",
    "amp": "^",
    "compile": "v",
    "max-autotune-no-cudagraphs": "<",
    "amp-compile": ">",
    "reduce-overhead": "p",
    "max-autotune": "h",
    "compile-cuda-graph": "*",
    "cuda-graph": "P",
}
OTHER_MARKER = "X"
# marker -> the character that stands for it in plain text; U+FE0E keeps it from becoming an emoji
CHARACTERS = {
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
    "X": "✖\ufe0e",
}
# preset -> dash pattern of its line, which sets it apart within its family; others are solid
DASHES: dict[str, tuple[float, ...]] = {
    "no_grad": (4, 2),
    "inference_mode": (1, 1.5),
    "max-autotune-no-cudagraphs": (1, 1.5),
    "amp-compile": (4, 2),
    "max-autotune": (4, 2),
    "compile-cuda-graph": (1, 1.5),
}


@dataclass(frozen=True)
class Look:
    """A part of a stacked bar; `fill` None is an outline."""

    name: str
    fill: str | None
    hatch: str = ""


# Overhead stands out, work is quiet, waiting is empty; hatches tell them apart without colour. Dots
# would: drawn as circles, they make a figure of half a megabyte.
OVERHEAD = "#a6409a"
LOOKS = {
    "dispatch": Look("dispatch", OVERHEAD),
    "launch": Look("launching", OVERHEAD, "////"),
    "host": Look("host, not split", OVERHEAD, "||||"),
    "work": Look("work", FADED),
    "gaps": Look("between kernels", FADED, "||||"),
    "wait": Look("waiting", None),
    "unsplit": Look("not split", None, "////"),
    "kernels": Look("kernels, profiled", FADED, "////"),
}
# What tensors hold between calls is quiet, what backward needs stands out, the rest is empty.
ACTIVATIONS = "#9a7b1e"
OPTIMIZER = "#6a6fc9"
SOURCES = {
    "weights": Look("weights", FADED),
    "inputs": Look("inputs", FADED, "////"),
    "state": Look("optimizer state", OPTIMIZER),
    "gradients": Look("gradients", OPTIMIZER, "////"),
    "kept": Look("kept besides", FADED, "||||"),  # on CUDA largely the workspace of cuBLAS
    "pool": Look("graph pool, free parts kept", None, "xxxx"),
    "saved": Look("saved for backward", ACTIVATIONS),
    "copies": Look("casted weights", ACTIVATIONS, "////"),
    "step": Look("rest of a call", None),
}
# The parts of a training step have the colours of the memory that they need.
PARTS = {
    "forward": Look("forward and loss", FADED),
    "backward": Look("backward", ACTIVATIONS),
    "optimizer": Look("optimizer", OPTIMIZER),
    "scaler": Look("GradScaler", OPTIMIZER, "////"),
    "undivided": Look("the step, undivided", None),
}

RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.edgecolor": FADED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "svg.fonttype": "none",  # text stays text: searchable, and in the page's own font
    "svg.hashsalt": "modescope",  # equal figures get equal bytes
}


def family(row: Row) -> Family:
    """The family, by the resolved axes, so that an overridden preset is shown as what it is."""
    if row["compile"] == "none":
        return CUDA_GRAPH if row["graph"] else AMP if row["autocast"] else EAGER
    graphs = row["graph"] or _COMPILES_TO_GRAPHS.get(row["compile"], False)
    return COMPILE_GRAPHS if graphs else COMPILE


def order(row: Row) -> tuple[int, int]:
    """A sorting key: by family, then in the order of MARKERS."""
    preset, presets = _preset(row), list(MARKERS)
    place = presets.index(preset) if preset in MARKERS else len(presets)
    return FAMILIES.index(family(row)), place


def linestyle(row: Row) -> Any:
    """The preset's line in matplotlib's terms."""
    pattern = DASHES.get(_preset(row))
    return "-" if pattern is None else (0, pattern)


def marker(row: Row) -> str:
    """The marker of the preset, whatever axes were overridden."""
    return MARKERS.get(_preset(row), OTHER_MARKER)


def appearance(row: Row) -> tuple[str, str]:
    """What the colour, marker and dashes of a row depend on."""
    return family(row).name, _preset(row)


def _preset(row: Row) -> str:
    return str(row["mode"]).partition("[")[0]

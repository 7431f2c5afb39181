"""The table of figures, in the order of a report. A new figure is a file and a line here."""

from __future__ import annotations

from modescope.analysis.figures import (
    compiling,
    fusion,
    heatmap,
    latency,
    memory,
    overhead,
    saved_activations,
    scaling,
    slopes,
    speedup,
    step_parts,
    threads,
    waterfall,
)

OF_SECTION = (  # one work at one size
    speedup.FIGURE,
    latency.FIGURE,
    overhead.FIGURE,
    step_parts.FIGURE,
    waterfall.FIGURE,
    fusion.FIGURE,
    memory.FIGURE,
    compiling.FIGURE,
)
OF_GRIDS = (heatmap.FIGURE,)  # one work at all sizes
OF_SERIES = (scaling.FIGURE, saved_activations.FIGURE, slopes.FIGURE)  # one work over one size
OF_THREADS = (threads.FIGURE,)  # one work at one size over threads
FIGURES = (*OF_SECTION, *OF_GRIDS, *OF_SERIES, *OF_THREADS)

"""Figures. Nothing is computed here: every number comes from the metrics and the series."""

from analysis.plots.canvas import svg
from analysis.plots.forest import forest
from analysis.plots.latency import latency
from analysis.plots.overhead import overhead
from analysis.plots.scaling import scaling
from analysis.plots.slopes import slopes

__all__ = ["forest", "latency", "overhead", "scaling", "slopes", "svg"]

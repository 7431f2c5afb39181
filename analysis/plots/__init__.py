"""Figures. Nothing is computed here: every number comes from the metrics and the series."""

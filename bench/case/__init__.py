"""Measures one case (a model in one mode) in the process started for it."""

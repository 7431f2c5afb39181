"""Measures one case, in the process started for it."""

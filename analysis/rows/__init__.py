"""Selects the rows of a study, with their flags, bounds and intervals."""

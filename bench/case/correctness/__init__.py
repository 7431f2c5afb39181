"""Judges whether results are correct, and ends a case whose results are not."""

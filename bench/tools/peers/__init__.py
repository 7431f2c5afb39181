"""Compares modescope with other harnesses: readings of one callable, and decisions on pairs."""

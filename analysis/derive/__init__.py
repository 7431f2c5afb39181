"""Derives columns from the stored ones: times, ratios, verdicts, flags, and comparisons of rows."""

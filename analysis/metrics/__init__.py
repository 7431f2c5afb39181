"""Columns derived from the stored ones."""

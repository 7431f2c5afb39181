"""Columns derived from the stored ones, and what compares rows by them."""

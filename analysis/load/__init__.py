"""Reads the result files of a study into one table."""

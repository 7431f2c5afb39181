"""Compares two studies, an old and a new one, on the command line."""

"""Compares two studies, old against new, on the command line."""

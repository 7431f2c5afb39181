"""Calls a function in a fresh process and reports how it ended."""

"""Enters a mode, watches its first call, and decides whether it did what its name says."""

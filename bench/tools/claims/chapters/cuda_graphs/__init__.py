"""Captured and replayed steps."""

"""Checks that a step computes the right result."""

"""Formats text for readers: tables, durations, and pages from templates."""

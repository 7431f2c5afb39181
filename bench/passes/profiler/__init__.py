"""Runs torch's profiler and reads its traces."""

"""Turns a command line into jobs, and jobs into result files."""

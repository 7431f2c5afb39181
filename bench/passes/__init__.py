"""Passes after timing: memory, counts of work, ceilings, the profiler."""

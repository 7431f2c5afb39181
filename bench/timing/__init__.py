"""Timing of any callable: timers, paired rounds, calibration, contention."""

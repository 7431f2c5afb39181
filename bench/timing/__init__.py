"""Timing of any callable: timers, paired rounds, the cost of measuring, load of the machine."""

"""Changes between two sets of processes: estimates, verdicts, power. Pure functions on numbers."""

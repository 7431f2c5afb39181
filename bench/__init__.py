"""Measures cases (a model in an execution mode) and writes a record of each."""

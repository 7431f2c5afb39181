"""Builds the step that is timed, from an execution mode and a phase."""

"""Turns a mode, a phase and their options into a step to be timed, and checks that step."""

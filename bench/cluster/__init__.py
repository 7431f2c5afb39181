"""Sweeps of several workers: processes on one or more machines that share a folder."""

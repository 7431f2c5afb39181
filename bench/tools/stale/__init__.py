"""Starts processes with caches that were filled before something changed."""

"""Casts and scaled gradients."""

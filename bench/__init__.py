"""Measuring PyTorch execution modes: cases in, records out."""

"""Operators registered with torch.library."""

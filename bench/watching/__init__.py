"""Watches what torch's compiler does in a program of the user's own, in its process."""

"""Which node of several is slower than the others, by the eager times of the same work."""

"""Measures two states of torch or of the user's code in turns: `modescope versus`."""

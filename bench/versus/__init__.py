"""Measures two states of torch or of the user's code in turns: `python -m bench.versus`."""

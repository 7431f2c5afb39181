"""The way of a call to its kernel, and what it costs."""

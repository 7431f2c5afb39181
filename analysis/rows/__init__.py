"""A row of a study: its type, its values, and what it is known to be."""

"""The command line: its schema, its overrides, and what is said of mistakes."""

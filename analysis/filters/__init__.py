"""`--where`: the rows that an expression selects. The entry point is `selection.select`."""

"""`--where`: which rows an expression chooses. The way in is `selection.select`."""

"""The cost of the dispatcher in each mode, in instructions, which have no timing noise."""

"""Training steps as a user writes them, and how they are checked.

A step drops gradients, calls forward and loss, then backward, then the optimizer. All blocks of
timed steps and all checks start from the same state, which is restored before each.
"""

"""What a training step is made of, whether it trains rightly, and where its time goes.

A step is what a user writes: gradients dropped, forward and loss (under autocast if asked),
backward (of a scaled loss if asked), optimizer. What it trains is put back before each block of
timed steps and before each check, so that all of them start from the same state.
"""

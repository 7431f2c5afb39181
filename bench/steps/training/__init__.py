"""Training steps as a user writes them: dropping gradients, forward and loss, backward, optimizer.

All blocks of timed steps and all checks start from the same state, which is restored before each.
"""

"""Is the result right? References, outputs, rounding, randomness, updates of training."""

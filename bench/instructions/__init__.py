"""What does the dispatcher cost in each mode, in instructions instead of noisy microseconds?"""

"""CPUs and GPUs: their clocks, memory, allocators, and what they report of their state."""

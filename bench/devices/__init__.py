"""CPUs and GPUs: clocks, memory, allocators, and what they say about their state."""

"""The caching allocator of CUDA."""

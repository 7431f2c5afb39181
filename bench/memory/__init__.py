"""What is the memory made of? Allocators by device, and what a variant does to them."""

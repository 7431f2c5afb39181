"""What is shared with a tensor, and what is copied."""

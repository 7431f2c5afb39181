"""modescope beside other harnesses: what each says of one callable, and what each decides."""

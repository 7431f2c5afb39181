"""Steps in the speedups of a series of studies, on the command line."""

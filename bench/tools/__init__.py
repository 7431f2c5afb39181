"""The parts of two programs, `bench.selfcheck` and `bench.claims`, and what programs share."""

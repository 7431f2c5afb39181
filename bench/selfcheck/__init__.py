"""The harness put to the test: what it reads where the truth is known, on the machine at hand."""

"""Claims: statements about PyTorch from documents, each tested on this machine.

A claim is a function under `@claim(...)` in a file that `check.MODULES` lists. It takes the device,
measures, and returns `holds`, `refuted` or `undecided` with its numbers. Its docstring says what is
measured and ends with a snippet; the page shows both. `views.view_contiguous` is a short example.

An ordinary case (a dense tensor, a usual shape) that contradicts a statement refutes it. A case
that the document hardly meant (another layout, a degenerate size) only limits it.
"""

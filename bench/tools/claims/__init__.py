"""Statements about PyTorch from documents, each put to a test on this machine.

A claim is one function under `@claim(...)` in a file that `check.CHAPTERS` lists. It takes the
device, measures, and returns `holds`, `refuted` or `undecided` with its numbers. Its docstring says
on the page what is measured and what decides. `views.view_contiguous` is a short one.

A statement is refuted if an ordinary case of what it speaks of (a dense tensor, a usual shape)
contradicts it. What contradicts it only where the document does not look (another layout, a
degenerate size) is a limit.
"""

"""Statements about PyTorch from documents, each put to a test on this machine.

A claim is one function under `@claim(...)` in a file that `check.MODULES` lists. It takes the
device, measures, and returns `holds`, `refuted` or `undecided` with its numbers. Its docstring says
what is measured and shows a snippet, both for the page. `views.view_contiguous` is a short one.

A statement is refuted if an ordinary case of what it speaks of (a dense tensor, a usual shape)
contradicts it. What contradicts it only where the document does not look (another layout, a
degenerate size) is a limit.
"""

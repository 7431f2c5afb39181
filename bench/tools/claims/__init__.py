"""The textbook, checked on this machine: statements about PyTorch, each put to an experiment.

How to add a claim: write its check as a function of the device under `@claim(...)`, in one of the
chapters that `checking.CHAPTERS` names, with the statement, its source, what it needs, and a
snippet that prints the same each time unless the claim is timed. The function returns an `Answer`;
its docstring says on the page what is measured and what decides.

A statement is `refuted` if an ordinary case of what it speaks of (a dense tensor, a usual shape)
contradicts it. It `holds_within_limits` if only what the document does not have in mind does
(another layout, a degenerate size, a switch of torch), if a range in it holds for some sizes, or if
a part of it was not to be seen (a Triton kernel on a CPU). A timing whose interval contains a bound
is `undecided`, never rounded.
"""

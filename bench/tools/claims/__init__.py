"""The textbook, checked on this machine: statements about PyTorch, each put to an experiment.

How to add a claim: in a file of a folder of `chapters/`, write the experiment as a function of the
device under `@lab.claim(...)`, with the statement, its source, what it needs and a snippet that
prints the same each time unless the claim is timed. `figures` says what each observed value is and
what it has to be; `rule` yields the steps that take several values. The docstring of the experiment
is the page's text on what is measured. Put an observation by which the claim holds in
tests/helpers/claims/, and, where a patched function can make the opposite true, that world.

Which verdict: a statement is `refuted` where an ordinary case of what it speaks of (a dense tensor,
a usual shape) contradicts it; it `holds_within_limits` where only what the document does not have
in mind contradicts it (another layout, a degenerate size, a switch of torch), where a bound in it
holds for some sizes, or where a part of it was not to be seen (a Triton kernel on a CPU); a timing
whose interval contains a bound is `inconclusive`, never rounded.
"""

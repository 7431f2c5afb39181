"""The textbook, checked on this machine: statements about PyTorch, each put to an experiment.

How to add a claim: in a file of `chapters/`, write what is observed as a frozen dataclass
(`bench.claims.seen` says how its fields are labelled), the rule as a pure function from it to a
`Verdict`, and the experiment as a function of the device, under `@claim(...)` with the statement,
its source, what it needs and a snippet that prints the same each time unless the claim is timed.
The docstring of the experiment is the page's text on what is measured, that of the rule the page's
rule. Put an observation that confirms and one that refutes beside the others in
tests/bench/claims/, and, where a patched function can make the opposite true, that world. Nothing
else has to be touched. A new file of `chapters/` is imported in `table` and put in its place in
`CHAPTERS` there, under a new title or an old one; the tests of a new chapter are a file that
`test_rules` imports and lists in `MADE_UP`. `measuring` has what experiments share: allocations of
a call, ratios and durations with intervals, what was compiled.

Which verdict: a statement is `refuted` where an ordinary case of what it speaks of (a dense tensor,
a usual shape) contradicts it; it `holds_within_limits` where only what the document does not have
in mind contradicts it (another layout, a degenerate size, a switch of torch), or where a bound in
it holds for some sizes; a timing whose interval contains a bound is `inconclusive`, never rounded.
"""

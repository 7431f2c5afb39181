"""Rules that explain why a mode is faster or slower than its baseline, or neither.

A rule reads the columns of a result row and returns the evidence for one cause, or None if the
cause does not apply or the columns do not decide. Its docstring says when the cause applies, and
its name is the cause's code. The rules lie in a file for each theme. `finding.CAUSES` lists all
rules, and `finding.findings` applies them to a table of rows.
"""

"""Rules that explain why a mode is faster or slower than its baseline, or neither.

A rule reads the columns of a result row and returns the evidence for one cause, or None if the
columns do not decide. The rules lie in a file for each theme. `finding.CAUSES` lists all rules, and
`finding.findings` applies them to a table of rows.
"""

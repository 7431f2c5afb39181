"""Why a row is faster, slower or neither: causes by rules on columns, with figures and a remedy.

`finding.CAUSES` lists them; the rules lie in a file for each theme. A rule returns the evidence, or
None where the columns do not decide. `finding.findings` applies all rules to a table of rows.
"""

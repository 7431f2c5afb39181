"""Expressions of `--where`: read, checked and applied to the rows of a derived table.

`selection.select(rows, expression)` is the way in. The language is a small part of Python's
expressions, so that every name, every type and every unknown value has one defined meaning.
"""

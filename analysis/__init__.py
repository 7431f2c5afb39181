"""Derived columns, tables, figures and reports, made from the records. Needs no torch."""

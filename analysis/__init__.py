"""What the records say: derived columns, tables, figures and reports. Needs no torch."""

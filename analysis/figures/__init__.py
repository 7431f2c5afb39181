"""Figures of a report, each with its drawing, caption and table.

All numbers come from the derived columns and the metrics; nothing is computed from samples here.
"""

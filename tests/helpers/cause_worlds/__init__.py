"""For each cause a world in which it is named, and worlds near it in which it is not.

The files mirror those of `analysis/causes`; `table.WORLDS` has all of them.
"""

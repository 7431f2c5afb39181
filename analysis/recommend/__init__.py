"""Which mode to run a model in.

`decide.recommend` decides, `merge_sizes.fold` says it in sentences, `code.code` in a program.
"""

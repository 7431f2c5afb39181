"""Which mode to run a model in.

`decide.recommend` decides, `advice.fold` says it in sentences, `code.code` in a program.
"""

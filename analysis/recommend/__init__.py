"""Recommends the mode in which to run a model.

`decide.recommend` decides, `advice.fold` writes the answers as sentences, and `code.code` as lines
of a program.
"""

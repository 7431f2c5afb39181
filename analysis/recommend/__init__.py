"""Recommends the mode in which to run a model.

`decide.recommend` decides, `advice.fold` groups the answers, `wording` has their sentences, and
`code.code` writes them as lines of a program.
"""

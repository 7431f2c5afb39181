"""Which mode to run a model in: the decision from the derived table, and its sentences.

`decide.recommend(table)` answers each Question, `merge_sizes.fold` merges equal answers for
neighbouring sizes into one sentence, and `constraints.Wishes` holds the user's constraints: number
of calls and memory limit.
"""

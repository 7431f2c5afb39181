"""Which mode to run a model in: decided on the derived table, and said in sentences.

`recommend(table)` answers one Question after the other, `fold` puts the answers for neighbouring
sizes into one sentence, and Wishes are what a reader may say of the use to be made of the model.
"""

from analysis.recommending.decide import recommend
from analysis.recommending.folding import Advice, Span, fold
from analysis.recommending.records import (
    Choice,
    Question,
    Recommendation,
    Refusal,
    Tie,
)
from analysis.recommending.wishes import ANYTHING, Wishes

__all__ = [
    "ANYTHING",
    "Advice",
    "Choice",
    "Question",
    "Recommendation",
    "Refusal",
    "Span",
    "Tie",
    "Wishes",
    "fold",
    "recommend",
]

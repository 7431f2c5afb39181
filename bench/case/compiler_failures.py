"""Why torch's compiler gave a case up, in a sentence. Imports the compiler."""

from __future__ import annotations

from torch._dynamo.exc import FailOnRecompileLimitHit

from modescope.bench.records.cases import Model
from modescope.bench.steps.evidence import graph_breaks
from modescope.bench.steps.evidence.graph_break_watch import STOPS, UNBREAKABLE, site

GAVE_UP = (
    "torch.compile compiled the same code again and again and gave up: a value that changes from "
    "call to call, such as a number in the module, is a constant of the compiled code"
)

CANNOT_TRACE = (
    "torch.compile cannot trace the whole model: {}; model.fullgraph=false allows graph breaks and "
    "counts them"
)

CANNOT_BREAK = "torch.compile cannot trace the model, and cannot break its graph there: {}"


def reason(error: Exception, model: Model) -> str | None:
    """The reason that `error` gives, or None if the compiler did not raise it."""
    if isinstance(error, FailOnRecompileLimitHit):
        return GAVE_UP
    if not isinstance(error, (*STOPS, *UNBREAKABLE)):
        return None
    may_break = model.fullgraph and not isinstance(error, UNBREAKABLE)
    return (CANNOT_TRACE if may_break else CANNOT_BREAK).format(graph_breaks.summary([site(error)]))

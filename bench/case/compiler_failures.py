"""Why torch's compiler gave a case up, in a sentence. Imports the compiler."""

from __future__ import annotations

import torch
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch._dynamo.utils import get_compilation_metrics

from modescope.bench.records.cases import Model
from modescope.bench.steps.evidence import compilation_log, graph_breaks
from modescope.bench.steps.evidence.graph_break_watch import STOPS, UNBREAKABLE, site

GAVE_UP = (
    "torch.compile compiled the same code again and again and gave up at its limit "
    "(recompile_limit={limit}), where torch by default goes on in eager{why}; keep a value that "
    "changes from call to call in a tensor, because a number is a constant of the compiled code"
)

CANNOT_TRACE = (
    "torch.compile cannot trace the whole model: {}; model.fullgraph=false allows graph breaks and "
    "counts them"
)

CANNOT_BREAK = "torch.compile cannot trace the model, and cannot break its graph there: {}"


def reason(error: Exception, model: Model) -> str | None:
    """The reason that `error` gives, or None if the compiler did not raise it."""
    if isinstance(error, FailOnRecompileLimitHit):
        return _gave_up()
    if not isinstance(error, (*STOPS, *UNBREAKABLE)):
        return None
    may_break = model.fullgraph and not isinstance(error, UNBREAKABLE)
    return (CANNOT_TRACE if may_break else CANNOT_BREAK).format(graph_breaks.summary([site(error)]))


def _gave_up() -> str:
    """With torch's reason to compile the last time, where it recorded one."""
    last = compilation_log.last_recompile_reason(get_compilation_metrics())
    why = f"; its last reason: {last}" if last else ""
    return GAVE_UP.format(limit=torch._dynamo.config.recompile_limit, why=why)

"""Says what an error of a case shows: the model, the calls before it, or the mode."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.model import compiler, plain_call
from modescope.bench.model.subject import Subject
from modescope.bench.modes import axes
from modescope.bench.records.cases import Case, Variant
from modescope.bench.records.errors import UsageError, one_line
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Ended, Findings

NEEDS_GRADIENTS = (
    "forward needs gradients, which {grad} does not record ({failure}); mode.grad=enabled does"
)

AFTER_CALLS = (
    "a call fails after others that worked ({error}): what forward keeps ({left}) cannot be put "
    "back before each call"
)


def compilers_reason(error: Exception, case: Case) -> str | None:
    """Returns the reason of an error of the compiler, without its traces; None of other errors."""
    if not compiler.is_imported():
        return None
    from modescope.bench.evidence import graph_break_watch

    return graph_break_watch.failure_reason(error, case.model)


@contextmanager
def blame(fails: str, case: Case, findings: Findings, advice: str | None = None) -> Iterator[None]:
    """Turns an error in the block into Ended, with a reason that does not blame the mode.

    The reason consists of `fails` (what fails instead), the error and `advice`.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (Ended, UsageError)) or is_out_of_memory(error):
            raise
        traceback.print_exc()
        reason = compilers_reason(error, case) or one_line(error)
        text = "; ".join(filter(None, (f"{fails}: {reason}", advice)))
        raise Ended(Status.FAILED, text, findings) from error


@contextmanager
def name_what_is_left(case: Case, findings: Findings) -> Iterator[None]:
    """Adds to an error of timed eager calls what may be its reason: calls before it worked."""
    mode = case.variant.mode
    try:
        yield
    except Exception as error:
        final = isinstance(error, (Ended, UsageError)) or is_out_of_memory(error)
        if final or mode.compiles or mode.graph:
            raise
        traceback.print_exc()
        left = findings.checks.state_left or "outside of its attributes"
        reason = AFTER_CALLS.format(error=one_line(error), left=left)
        raise Ended(Status.FAILED, reason, findings) from error


@contextmanager
def blame_gradients(subject: Subject, variant: Variant, findings: Findings) -> Iterator[None]:
    """Turns an error in the block into Ended if it needs gradients, which `variant` lacks."""
    try:
        yield
    except Exception as error:
        context = axes.context("grad", variant)
        if is_out_of_memory(error) or context is None:
            raise
        failure = plain_call.find_failure(subject, context())
        if not failure:
            raise
        reason = NEEDS_GRADIENTS.format(grad=variant.mode.grad, failure=failure)
        raise Ended(Status.FAILED, reason, findings) from error

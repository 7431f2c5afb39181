"""Checks that a steady call still does the work of a call with new arguments.

A model may remember its last result, or do less with every call: what is timed is then not what a
program waits for. The reference is the second call of a plain eager copy, with arguments that it
has not seen. A first call may make tables that later calls only read, so it is no reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import torch

from modescope.bench.devices.devices import prepare_call
from modescope.bench.evidence.first_call import Contender
from modescope.bench.model import arguments
from modescope.bench.model.compiler import OperatorMode
from modescope.bench.model.subject import Subject
from modescope.bench.modes import axes
from modescope.bench.passes import operator_comparison
from modescope.bench.passes.operator_comparison import Operators
from modescope.bench.passes.profiler.operators import find_working
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Ended, Findings, add_flag
from modescope.bench.summary import GROWS

OperatorCounts = Counter[str]
"""The operators of a call that compute something: how often each is called, by name."""

GROWTH = 1.5
"""A steady call, after hundreds of calls, whose operators are this many times those of an early
call, or return this many times its elements, shows that work grows with every call."""

REMEMBERED = (
    "called again with the same arguments, the model computes nothing: it returns what it "
    "remembers of an earlier call, so there is nothing to time; measure the part of it that "
    "computes"
)


@dataclass(frozen=True)
class WorkOfNewCall:
    """The operators that a call with new arguments runs in plain eager."""

    operators: OperatorCounts
    elements: int  # that they return
    dtypes: frozenset[torch.dtype]  # of weights and inputs: other kernels may serve other dtypes


def work_of_new_call(
    plain: Subject, findings: Findings, reached: OperatorMode
) -> WorkOfNewCall | None:
    """Returns the operators that `plain` runs when it is called with arguments it has not seen.

    The arguments are copies, in new tensors. A second call with these same tensors follows: if it
    computes nothing, the model remembers results, and Ended is raised. `plain` must have been
    called once before. None if torch cannot list the operators. The calls run within `reached`.
    """
    try:
        called = replace(plain, inputs=plain.inputs.copy())
        (new, elements), (same, _) = _operators(called, reached), _operators(called, reached)
    except Exception:  # of any kind: forward may need gradients, or refuse to be observed
        return None
    if new and not same:
        raise Ended(Status.FAILED, REMEMBERED, findings)
    return WorkOfNewCall(new, elements, _dtypes(plain))


def compare(before: WorkOfNewCall, contenders: Iterable[Contender], findings: Findings) -> Findings:
    """Adds a flag to `findings` if a steady eager call does other work than `before`.

    `before` is the work of a call with new arguments. The steady call is made here, with the first
    of `contenders` that runs in eager, as the model was built, in the dtypes of `before` and
    without random numbers, so call this after timing. If there is none, nothing is compared.
    Raises Ended if the steady call computes nothing.
    """
    for contender in contenders:
        built, mode = contender.built, contender.facts.mode
        if mode.compiles or mode.graph or axes.prepared(contender.facts.variant):
            continue
        if _dtypes(built.subject) != before.dtypes or built.subject.random:
            continue
        try:
            with built.keep_state():
                _operators(built.subject)  # buffers are put back, so this may be a first call
                now, elements = _operators(built.subject)
        except Exception:  # such as a table that was made in inference mode
            continue
        if before.operators and not now:
            raise Ended(Status.FAILED, REMEMBERED, findings)
        if elements > GROWTH * before.elements or now.total() > GROWTH * before.operators.total():
            findings = add_flag(findings, GROWS)
        if now != before.operators:
            text = operator_comparison.difference(before.operators, now)
            checks = replace(findings.checks, steady_operators=text)
            return add_flag(replace(findings, checks=checks), "other_operators")
        return findings
    return findings


def _operators(subject: Subject, *observers: OperatorMode) -> tuple[OperatorCounts, int]:
    """Counts the operators of a call in plain eager that compute something, and their results.

    The results count by their elements. The call is also seen by `observers`.

    It runs without gradients, but not in inference mode, which hides operators within compositions,
    and with what torch chooses on axes that calls of a variant set.
    """
    axes.switch_back(subject.switches)
    call, seen = prepare_call(arguments.call_of(subject, subject.module)), Operators()
    with torch.no_grad(), ExitStack() as stack:
        for observer in (*observers, seen):
            stack.enter_context(observer)
        call()
    works = {
        name: n
        for name, n in Counter(seen.names).items()
        if find_working([name.replace(".", "::", 1)])
    }
    return Counter(works), seen.elements


def _dtypes(subject: Subject) -> frozenset[torch.dtype]:
    return frozenset(tensor.dtype for tensor in subject.tensors())

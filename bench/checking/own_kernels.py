"""Checks of kernels of the user's own, beside that of a row's results (`bench.modes.kernels`).

One is whether an implementation overwrites an argument that the model leaves alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from modescope.bench.devices.devices import Hardware
from modescope.bench.model import arguments
from modescope.bench.model.subject import Subject
from modescope.bench.modes import modes
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.cases import Case
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Ended, Findings

OVERWRITES = (
    "kernels={name} changes the argument {place}, which the model leaves as it is, so the caller's "
    "data would be another after each call; write to a new tensor instead"
)


def check_arguments(subject: Subject, case: Case, device: Hardware, findings: Findings) -> None:
    """Raises Ended if the case's implementation changes an argument that the model does not.

    It is called once in eager, at each size, with the case's dtype and autocast.
    """
    variant = replace(case.variant, mode=case.variant.mode.eager_mode())
    own = modes.prepare(subject, variant, phase_of(case.options))
    for part in own.parts.values() or [own]:
        find = partial(arguments.find_changes, part)
        found: Any = modes.enter_contexts(find, variant, device.type)()
        if changed := [place for place in found if place not in subject.changes]:
            reason = OVERWRITES.format(name=variant.mode.kernels, place=changed[0])
            raise Ended(Status.WRONG_RESULT, reason, findings)

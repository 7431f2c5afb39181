"""Calls a model once on described inputs, so that a mistake shows before anything is measured."""

from __future__ import annotations

import torch

from modescope.bench.devices.out_of_memory import is_out_of_memory
from modescope.bench.records.errors import UsageError
from modescope.bench.records.input_descriptions import KEY
from modescope.bench.records.progress import one_line
from modescope.bench.steps.subject import Subject, state_kept

LONGEST_ERROR = 200  # characters of torch's message


def try_forward(subject: Subject, device: torch.device) -> None:
    """Raises UsageError where forward fails on `device`, except for lack of memory.

    A case that needs too much memory is measured all the same, and recorded as such.
    """
    try:
        moved = subject.to(device)
        with torch.no_grad(), state_kept(moved.module):
            moved.module(*moved.inputs.args, **moved.inputs.kwargs)
    except Exception as error:
        if is_out_of_memory(error):
            return
        raise UsageError(
            f"{KEY} does not fit {type(subject.module).__name__}: "
            f"{one_line(error, LONGEST_ERROR)}; change the description, or model.kwargs"
        ) from error

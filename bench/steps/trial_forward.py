"""Calls a model once, so that a mistake in sizes or inputs shows before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from modescope.bench.devices.devices import Hardware
from modescope.bench.devices.out_of_memory import is_out_of_memory
from modescope.bench.records.cases import Model
from modescope.bench.records.errors import UsageError
from modescope.bench.records.input_descriptions import KEY
from modescope.bench.records.progress import one_line
from modescope.bench.steps.subject import Subject, state_kept

LONGEST_ERROR = 200  # characters of torch's message


def try_described_inputs(subject: Subject, device: Hardware) -> None:
    """Raises UsageError where forward fails on `device` with the inputs of `model.inputs`."""
    if failure := _failure(subject, device):
        raise UsageError(
            f"{KEY} does not fit {type(subject.module).__name__}: "
            f"{failure}; change the description, or model.kwargs"
        )


def try_sizes(subject: Subject, device: Hardware, model: Model, shape: Mapping[str, int]) -> None:
    """Raises UsageError where forward of a library's architecture fails on `device`.

    The text in the module's attribute `allowed_sizes`, if it has one, says what to choose.
    """
    if failure := _failure(subject, device):
        sizes = " ".join(f"shape.{name}={size}" for name, size in shape.items())
        allowed = getattr(subject.module, "allowed_sizes", None)
        advice = f"choose other sizes ({allowed})" if allowed else "choose other sizes"
        mode = "train()" if subject.module.training else "eval()"
        raise UsageError(f"{model.name} fails in {mode} with {sizes}: {failure}; {advice}")


def _failure(subject: Subject, device: Hardware) -> str | None:
    """What forward raises on `device`, on one line; None where it works or lacks memory.

    A case that needs too much memory is measured all the same, and recorded as such.
    """
    try:
        moved = subject.to(device.torch_device)
        with torch.no_grad(), state_kept(moved.module):
            moved.call()
            device.synchronize()  # only then does a GPU tell of an index out of range
    except Exception as error:
        return None if is_out_of_memory(error) else one_line(error, LONGEST_ERROR)
    return None

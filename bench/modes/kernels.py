"""Kernels of the user's own: a mode calls another implementation of its model.

Both have the same `state_dict`. The weights, the baseline, the reference of the check and the
counted work are those of the first, which is called `torch`. The command line reads this file
without torch.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from modescope.bench.records.cases import TORCH, Mode, Variant
from modescope.bench.records.errors import UsageError

if TYPE_CHECKING:
    import torch

    from modescope.bench.model.subject import Subject

CALLED, INLINED, BROKE, NOT_RUN = "called", "inlined", "broke", "absent"
"""Values of the column `kernel_use`: called as it is; within compiled code, as Inductor does with
kernels of Triton; called between the pieces of a broken graph; and not run at all."""

INTERPRETER = "TRITON_INTERPRET"
"""The variable by which Triton runs kernels in Python instead of compiling them."""

INTERPRETED = (
    f"{INTERPRETER}={{}}: Triton would run its kernels in Python, thousands of times slower than "
    f"compiled, so nothing is timed; unset {INTERPRETER}"
)

OTHER_STATE = (
    "kernels={name} has another state_dict than the model: {unlike}; build both with the same "
    "parameters and buffers, as the weights of the model are loaded into the other"
)

ABSENT = (
    "a call runs no operator or kernel that only kernels={f.mode.kernels} has{f.kernels.lost}: it "
    "ran torch's own code"
)

UNSEEN = (
    "whether a kernel of its own ran is unknown: it calls none as an operator of torch, or as a "
    "kernel of Triton"
)


def is_asked(mode: Mode) -> bool:
    """Whether `mode` calls another implementation than the model's own."""
    return mode.kernels != TORCH


def interpreted() -> str | None:
    """Says why nothing can be timed where Triton interprets kernels; None where it compiles."""
    value = os.environ.get(INTERPRETER, "")
    on = value.lower() in ("1", "true", "on", "yes", "y")  # as Triton reads it
    return INTERPRETED.format(value) if on else None


def prepare(subject: Subject, variant: Variant) -> Subject:
    """Returns `subject` with the module of the implementation that `variant` asks for.

    It has the weights of the subject's module, and all that was done to that module since it was
    built is done to it.
    """
    build, name = subject.kernels, variant.mode.kernels
    assert build is not None
    own = subject.use(lambda: build(name))
    check(name, subject.module, own.module)
    own.module.load_state_dict(subject.module.state_dict())
    own.module.train(subject.module.training)
    if own.warm:
        own.warm_up()
    return own.remember_state()


def check(name: str, module: torch.nn.Module, other: torch.nn.Module) -> None:
    """Raises UsageError unless `other`, of implementation `name`, can have `module`'s weights."""
    from modescope.bench.model import copies

    if unlike := copies.state_differences(module, other):
        raise UsageError(OTHER_STATE.format(name=name, unlike=copies.shorten_list(unlike)))


def code(variant: Variant, device_type: str) -> tuple[str, ...]:
    """Returns the line of a user's program that says which implementation `model` is."""
    return (f"# model: your implementation {variant.mode.kernels}, with the same weights",)


def absent(facts: Any) -> bool:
    """Whether nothing ran of what an implementation has of its own.

    `facts` are `evidence.mode_effect.Facts`.
    """
    return bool(facts.kernels.use == NOT_RUN)


def unseen(facts: Any) -> bool:
    """Whether it is unknown what of an implementation ran."""
    return is_asked(facts.mode) and facts.kernels.use is None

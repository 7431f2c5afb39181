"""Freezing: Inductor makes constants of the weights, and packs them for its kernels.

torch decides while it traces, by a setting of the whole process and by whether gradients are
recorded (`torch._dynamo.utils.is_parameter_freezing`). An option of torch.compile comes too late
and is ignored. The command line reads this file without torch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from modescope.bench.modes import backends
from modescope.bench.records.cases import Case, Mode, Variant

NAME = "freezing"
"""The axis (`bench.modes.axes`)."""

MIXED = (
    "freezing is set for the whole process, so {whose} would be frozen, too; use "
    "baseline.mode=eager"
)

UNCACHED = (
    "torch caches no frozen code, so compile_cache=warm would measure a cold first call; use "
    "compile_cache=cold"
)

REMARK = (
    "frozen code holds its own copy of the weights: it does not follow when they change, and takes "
    "memory beside them (resident_bytes, weights_bytes)"
)


def is_asked(mode: Mode) -> bool:
    """Whether `mode` is to freeze weights."""
    return bool(dict(mode.axes).get(NAME, False))


def mixed(case: Case) -> str | None:
    """Says why `case` and its baseline cannot share a process; None if they can."""
    if case.baseline is None:
        return None
    mode, baseline = case.variant.mode, case.baseline.mode
    if is_asked(mode) and baseline.compiles and not is_asked(baseline):
        return MIXED.format(whose="a compiled baseline")
    if is_asked(baseline) and mode.compiles and not is_asked(mode):
        return MIXED.format(whose="this compiled mode")
    return None


def set_up(variants: Sequence[Variant]) -> None:
    """Sets torch for a process in which `variants` run, whatever environment variables say."""
    here = any(backends.compiles_here(variant.mode) for variant in variants)
    if not (here or "torch._inductor.config" in sys.modules):
        return  # a process that loads a package imports no compiler
    import torch._inductor.config

    torch._inductor.config.freezing = any(is_asked(variant.mode) for variant in variants)


def code(variant: Variant, device_type: str) -> tuple[str, ...]:
    """Returns the lines that freeze in a user's program, before it compiles."""
    return (
        "# weights become constants of the compiled code: it does not see when they change\n"
        "torch._inductor.config.freezing = True",
    )


def froze_nothing(facts: Any) -> bool:
    """Whether weights were to be frozen and none was; `facts` are `evidence.mode_effect.Facts`."""
    return is_asked(facts.mode) and not facts.code.frozen_weights


def froze_unasked(facts: Any) -> bool:
    """Whether weights were frozen in a mode that does not ask for it."""
    return not is_asked(facts.mode) and bool(facts.code.frozen_weights)


def froze(facts: Any) -> bool:
    """Whether weights were frozen."""
    return bool(facts.code.frozen_weights)

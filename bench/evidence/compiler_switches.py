"""Names the environment variables and settings of torch that change what torch.compile does."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from torch._dynamo import config, eval_frame

OFF = "switches torch.compile off"
GOES_ON = "lets torch.compile go on in eager, without an error, where it fails"
LATER = "delays torch.compile to a later call"


def active() -> tuple[str, ...]:
    """Returns what is on of SWITCHES, as `TORCH_COMPILE_DISABLE=1 switches torch.compile off`."""
    return tuple(f"{name} {effect}" for name, is_on, effect in SWITCHES if is_on())


def backend_is_replaced() -> bool:
    """Whether torch.compile uses another backend than it is asked for."""
    return eval_frame._stance.backend is not None


def _is_one(variable: str) -> bool:
    return os.environ.get(variable) == "1"


def _has_stance(name: str) -> bool:
    return bool(eval_frame._stance.stance == name)


SWITCHES: tuple[tuple[str, Callable[[], object], str], ...] = (
    ("TORCHDYNAMO_DISABLE=1", lambda: _is_one("TORCHDYNAMO_DISABLE"), OFF),
    (
        "TORCH_COMPILE_DISABLE=1",
        lambda: config.disable and _is_one("TORCH_COMPILE_DISABLE"),
        OFF,
    ),
    (
        "torch._dynamo.config.disable",
        lambda: config.disable and not _is_one("TORCH_COMPILE_DISABLE"),
        OFF,
    ),
    *(
        (f'torch.compiler.set_stance("{name}")', partial(_has_stance, name), effect)
        for name, effect in {
            "force_eager": OFF,
            "eager_on_recompile": "lets torch.compile compile nothing new",
            "fail_on_recompile": "lets torch.compile compile nothing new",
            "eager_then_compile": LATER,
            "aot_eager_then_compile": LATER,
        }.items()
    ),
    (
        "torch.compiler.set_stance(force_backend=…)",
        backend_is_replaced,
        "makes torch.compile use another backend",
    ),
    (
        "TORCHDYNAMO_SUPPRESS_ERRORS",
        lambda: config.suppress_errors and os.environ.get("TORCHDYNAMO_SUPPRESS_ERRORS"),
        GOES_ON,
    ),
    (
        "torch._dynamo.config.suppress_errors",
        lambda: config.suppress_errors and not os.environ.get("TORCHDYNAMO_SUPPRESS_ERRORS"),
        GOES_ON,
    ),
    (
        "TORCHDYNAMO_DEBUG_FUNCTION",
        lambda: os.environ.get("TORCHDYNAMO_DEBUG_FUNCTION"),
        "limits torch.compile to functions of one name",
    ),
)
"""Names, functions that tell whether they are on, and what they do."""

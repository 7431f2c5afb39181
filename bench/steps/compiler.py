"""torch's compiler, whose import takes seconds. Only cases that compile import it."""

from __future__ import annotations

import sys


def import_it() -> None:
    """Imports all of it that a first call would import."""
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401


def is_imported() -> bool:
    """Whether anything has imported it, which a model that compiles itself does too."""
    return "torch._dynamo.utils" in sys.modules

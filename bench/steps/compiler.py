"""torch's compiler, whose import takes seconds. Only cases that compile import it."""

from __future__ import annotations

import sys
from collections.abc import Callable


def import_it() -> None:
    """Imports all of it that a first call would import."""
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401


def is_imported() -> bool:
    """Whether anything has imported it, which a model that compiles itself does too."""
    return "torch._dynamo.utils" in sys.modules


def recompile_reasons() -> Callable[[], list[str]]:
    """The result returns torch's reasons to compile code again since now."""
    if not is_imported():
        return list
    from modescope.bench.steps.evidence import compilation_log

    since = compilation_log.record()
    return lambda: compilation_log.recompile_reasons(since())

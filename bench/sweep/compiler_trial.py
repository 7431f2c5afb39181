"""Tries in a child process what modes hand to torch.compile, before anything is measured."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from modescope.bench.modes import compiler_options
from modescope.bench.records.cases import Case, Mode
from modescope.bench.records.errors import Progress, UsageError, shorten
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import Ending, Task

TIMEOUT_S = 300

ADVICE = "\n\nSet TORCHDYNAMO_VERBOSE"
"""The beginning of what torch adds to the errors of backends."""

LONGEST = 300
"""The most characters of an error of a backend."""

Trial = tuple[str, str | None, str]
"""Options of Inductor (canonical JSON), a backend or None, and a device."""


def check(cases: Iterable[Case]) -> None:
    """Raises UsageError for the first mistake in options or backends of `cases`' modes."""
    modes = ((mode, case.device) for case in cases for mode in _modes(case))
    trials = [
        (mode.options, mode.backend, device)
        for mode, device in modes
        if mode.backend or mode.options != "{}"
    ]
    if not trials:
        return
    outcome = isolation.call(
        Task("modescope.bench.sweep.compiler_trial:try_all", object),
        list(dict.fromkeys(trials)),
        timeout_s=TIMEOUT_S,
    )
    if outcome.kind != Ending.RETURNED:
        raise UsageError(outcome.reason)


def _modes(case: Case) -> list[Mode]:
    return [each.mode for each in (case.variant, case.baseline) if each]


def try_all(progress: Progress, trials: Sequence[Trial]) -> None:
    """Raises UsageError for the first of `trials` that torch.compile does not take."""
    for options, backend, device in trials:
        compiler_options.check(options)
        if backend:
            progress(f"trying backend {backend}")
            _try_backend(backend, device)


def _try_backend(name: str, device: str) -> None:
    """Compiles and runs a tiny function, because torch lists backends that are not installed."""
    import torch
    from torch._dynamo.exc import InvalidBackend

    try:
        with torch.inference_mode(), warnings.catch_warnings(action="ignore"):
            torch.compile(lambda x: x * 2, backend=name)(torch.ones(2, device=device))
    except InvalidBackend as error:
        known = ", ".join(torch._dynamo.list_backends(exclude_tags=None))
        raise UsageError(
            f"mode.backend={name}: torch has no such backend; it has {known}"
        ) from error
    except Exception as error:
        said = " ".join(str(error).partition(ADVICE)[0].split())
        raise UsageError(f"mode.backend={name}: {shorten(said, LONGEST)}") from error

"""The sentinel of a worker: plain eager of the sweep's first case, the same work on every node.

A worker measures it before its first case. Its row is a usual record in `<study>/sentinels/`, so it
is in no table; `analysis.nodes` compares the nodes by it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from modescope.bench.records import leftovers
from modescope.bench.records.errors import UsageError
from modescope.bench.records.scheduling import SENTINELS, Scheduling
from modescope.bench.resolve import Request
from modescope.bench.settings import BaselineSettings, BudgetSettings, ModeSettings, preset
from modescope.bench.sweep.attempt import Row, attempt
from modescope.bench.sweep.prepare import prepare

MODE, BUDGET = "eager", "quick"

SETTINGS = {
    "mode": MODE,
    "baseline.mode": "none",
    "budget": BUDGET,
    "profile": "false",
    "memory": "false",
}
"""What a sentinel sets, as a command says it."""

OF_OTHER_MODES: dict[str, Any] = {
    "capture": "step",
    "capturable": None,
    "activation_memory_budget": None,
    "scaler": None,
}
"""Options of training that eager refuses, at their defaults."""

REPLACED = {
    *("mode", "baseline", "budget", "profile", "memory", "dtype", "replicates"),
    *(f"train.{name}" for name in OF_OTHER_MODES),
}
"""Settings and groups of the first case that the sentinel does not take over."""


def sentinel(first: Request) -> Request:
    """The request of the sentinel, from the first request of a sweep."""
    settings = first.settings
    # weights of a mode with autocast are fp32
    dtype = "fp32" if settings.mode.autocast else settings.dtype
    changed = replace(
        settings,
        mode=ModeSettings(**preset("mode", "mode", MODE)),
        baseline=BaselineSettings("none"),
        budget=BudgetSettings(**preset("budget", "budget", BUDGET)),
        dtype=dtype,
        train=replace(settings.train, **OF_OTHER_MODES),
        profile=False,
        memory=False,
        replicates=1,
    )
    kept = filter(_stays, first.overrides)
    typed = [f"{key}={value}" for key, value in SETTINGS.items()]
    return replace(
        first, settings=changed, baseline=None, overrides=(*kept, *typed, f"dtype={dtype}")
    )


def measure_sentinel(first: Request, where: Scheduling) -> Row | None:
    """Measures the sentinel; None where this machine cannot prepare the case.

    To be called once the worker has prepared its own cases: the first preparation decides what
    all processes import at their start.
    """
    try:
        (job,) = prepare([sentinel(first)])
    except UsageError:
        return None
    leftovers.clear(job.plan.study_folder / SENTINELS)
    return attempt(job, where=where, folder=SENTINELS)


def _stays(override: str) -> bool:
    """Whether an override of the first case is one of the sentinel, too."""
    key = override.lstrip("+~").partition("=")[0]
    return key not in REPLACED and key.partition(".")[0] not in REPLACED

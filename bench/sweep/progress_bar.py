"""The bar on stderr that shows how much of a sweep is measured, and what is being measured."""

from __future__ import annotations

from typing import NoReturn

from tqdm import tqdm

from modescope.bench.sweep.record_attempt import OnPhase


def progress_bar(total: int, unit: str) -> tqdm[NoReturn]:
    """A bar that is shown on a terminal only, and removed at its end."""
    return tqdm(total=total, unit=unit, disable=None, leave=False)


def named(bar: tqdm[NoReturn], label: str) -> OnPhase:
    """Shows what is measured and the phase that it enters."""
    return lambda phase: bar.set_description(f"{label}: {phase}")

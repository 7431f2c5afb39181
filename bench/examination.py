"""Is what will be timed right? Outputs are examined, or where it trains what it learns."""

from __future__ import annotations

import math

from bench import accuracy, tolerances
from bench.accuracy import Deviation
from bench.devices import Hardware
from bench.modes import Built
from bench.records import Case, Variant
from bench.subject import Subject
from bench.training import exam as of_training

Exam = accuracy.Exam | of_training.Exam


def prepare(subject: Subject, case: Case, device: Hardware, seed: int) -> Exam:
    """What float64 makes of fresh inputs."""
    if case.training is None:
        return accuracy.prepare(subject, seed)
    return of_training.prepare(subject, case.training, device, seed)


def examine(exam: Exam, built: Built, variant: Variant, limit: float = math.inf) -> Deviation:
    """The largest error of what was built, and where; all is as before when it returns.

    Errors above `limit` may be looked at twice (`bench.training.exam`).
    """
    if isinstance(exam, of_training.Exam):
        return of_training.examine(exam, built, variant, limit)
    return accuracy.examine(exam, built.subject, built.step)


def eager_is_sane(case: Case, error: float, dtype: str) -> bool:
    """Whether plain eager itself computes, or learns, something at this dtype."""
    return tolerances.eager_is_sane(error, dtype, trains=case.training is not None)

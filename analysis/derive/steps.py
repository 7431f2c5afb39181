"""The measured steps between eager and a compiled mode: which of them count, and which is first."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pandas as pd

from modescope.analysis.derive.select import per_row
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, value_of
from modescope.bench.records.gap_steps import LADDER, TRIALS, GapStep, Trial
from modescope.bench.stats.estimates import Estimate, ends, product, quotient

OTHER_OPERATORS = "other_operators"
"""The name of a step whose switch also made torch run other operators."""


@dataclass(frozen=True)
class Step:
    """A step of a row: what it saves as a share of eager's call; what it adds is negative."""

    kind: GapStep
    share: Estimate
    unlike: str | None  # the other operators that its call runs, if it does

    @property
    def name(self) -> str:
        """The name of the step, or OTHER_OPERATORS if it is no single thing."""
        return OTHER_OPERATORS if self.unlike else self.kind.name


def steps(row: Row) -> list[Step]:
    """Returns all steps of a row in order; empty if they were not measured or have no interval."""
    unlike = json.loads(value_of(row, "steps_unlike") or "{}")
    shares = ((kind, value_of(row, f"step_{kind.name}")) for kind in LADDER)
    return [
        Step(kind, share, unlike.get(kind.name))
        for kind, share in shares
        if share is not None and share.low is not None
    ]


def least(row: Row) -> float:
    """Returns the share of eager's call up to which the control of a row explains a difference."""
    control: Estimate | None = value_of(row, "steps_control")
    return 0.0 if control is None else max(map(abs, ends(control)))


def exceeds(share: Estimate, limit: float) -> bool:
    """Whether a share is surely further from 0 than `limit`."""
    low, high = ends(share)
    return low > limit or high < -limit


def named(row: Row) -> list[Step]:
    """Returns the steps of a row that are surely larger than its control, the largest first."""
    beyond = [step for step in steps(row) if exceeds(step.share, least(row))]
    return sorted(beyond, key=lambda step: -abs(step.share.value))


def is_saving(row: Row) -> bool:
    """Whether a row is explained by what it saves, not by what it adds.

    It is if the mode is faster than eager, or may be as fast and its largest step saves.
    """
    gap: Estimate | None = value_of(row, "steps_gap")
    if gap is None:
        return False
    low, high = ends(gap)
    return low > 0 or (high >= 0 and any(step.share.value > 0 for step in named(row)[:1]))


def first(row: Row) -> Step | None:
    """Returns the largest step that explains the gap of a row; None if there is none.

    That is one that saves if the row `is_saving`, else one that adds.
    """
    fitting = (step for step in named(row) if (step.share.value > 0) == is_saving(row))
    return next(fitting, None)


def saved_dispatch(row: Row) -> float | None:
    """Returns what the step `code` saves at least by calling fewer operators; None if unknown.

    Beside dispatch (its call on an empty batch) eager has work to save, so the rest of what the
    compiler's code saves is dispatch. A share of eager's call. Only where the row's baseline is the
    eager that its steps begin with, and on a CPU, where nothing runs beside dispatch.
    """
    code, dispatch = value_of(row, "step_code"), row["dispatch_share"]
    ratio, speedup = row["dispatch_ratio"], row["speedup"]
    if (
        predicates.on_cuda(row)
        or not begin_at_baseline(row)
        or None in (code, dispatch, ratio, speedup)
    ):
        return None
    share = quotient(product(dispatch, ratio), speedup)  # of the baseline's dispatch in its call
    if share is None or code.low is None:
        return None
    return float(code.low - (1 - ends(share)[0]))


def begin_at_baseline(row: Row) -> bool:
    """Whether the eager call with which the steps of a row begin is that of its baseline.

    It has the axes of the mode, such as another layout or kernels of the user's own.
    """
    is_same = row["dtype"] == row["baseline_dtype"] or row["autocast"]
    return bool(row["baseline_mode"] == "eager" and is_same and not axes_of_eager(row))


def axes_of_eager(row: Row) -> dict[str, str]:
    """Returns the further axes of the eager call with which the steps of a row begin."""
    every = json.loads(row["axes"] or "{}")
    return {name: value for name, value in every.items() if name != "freezing"}  # of compiled code


def best_trial(row: Row) -> tuple[Trial, Estimate] | None:
    """Returns the change beside the mode that gains most, with its gain; None if none surely gains.

    It has to gain more than the control, which is a share of eager's call, here of the mode's own.
    Of those that may gain as much, it is the first of TRIALS, which leaves out the fewest guards.
    """
    gap: Estimate | None = value_of(row, "steps_gap")
    if gap is None:
        return None
    limit = 1 + least(row) / max(1e-9, 1 - gap.value)
    gains = ((trial, value_of(row, f"with_{trial.name}")) for trial in TRIALS)
    known = [(trial, gain) for trial, gain in gains if gain is not None and gain.low is not None]
    gaining = [(trial, gain) for trial, gain in known if gain.low > limit]
    most = max((gain.value for _, gain in gaining), default=0.0)
    return next((pair for pair in gaining if ends(pair[1])[1] >= most), None)


def first_steps(rows: pd.DataFrame) -> pd.Series:
    """Returns the first step of each row, None without one."""
    return per_row(rows, map(first, as_rows(rows)), "object")


def measured_cause(rows: pd.DataFrame) -> pd.Series:
    """Returns the name of the first step of each row, null without one."""
    return per_row(rows, (step and step.name for step in rows["_step"]), "object")


def measured_share(rows: pd.DataFrame) -> pd.Series:
    """Returns the share of the first step of each row as an Estimate, None without one."""
    return per_row(rows, (step and step.share for step in rows["_step"]), "object")

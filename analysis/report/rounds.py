"""Strips of the ratios of a row's rounds, which show what an interval hides: levels and drift."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modescope.analysis import load
from modescope.analysis.folders import Folder, RemotePath
from modescope.analysis.format import numbers

MOST_STRIPS = 200  # a report with more rows has none
WIDE, HIGH = 600, 64  # of a strip, in its own units
_ROUNDS = ("run_id", "latency_rounds_s", "baseline_latency_rounds_s")


@dataclass(frozen=True)
class Strip:
    """The ratios of the rounds of one process, in the order in which they were measured.

    `dots` is an SVG path with a dot per round, in a box of WIDE × HIGH; up is faster, and the scale
    is logarithmic. `one` is the height of 1×, or None if that lies outside.
    """

    text: str  # `240 rounds, 0.98× to 1.12×; half of them 1.03× to 1.05×`
    dots: str
    one: float | None


def strips(study: Folder, run_ids: Iterable[str]) -> Mapping[str, Strip]:
    """Returns a Strip for each run of a study that stored the rounds of both sides.

    Empty for a study elsewhere, which would be read twice, and for more than MOST_STRIPS runs.
    """
    wanted = {*run_ids}
    if isinstance(study, RemotePath) or len(wanted) > MOST_STRIPS:
        return {}
    runs = load.samples(study, _ROUNDS)
    runs = runs[runs["run_id"].isin(wanted)]
    found = zip(*(runs[name] for name in _ROUNDS), strict=True)
    return {
        run_id: strip(np.asarray(baseline, float) / np.asarray(case, float))
        for run_id, case, baseline in found
        if case is not None and baseline is not None and 0 < len(case) == len(baseline)
    }


def strip(ratios: NDArray[np.float64]) -> Strip:
    """Returns the Strip of these ratios, the baseline's time ÷ the case's."""
    logs = np.log(ratios)
    low, high = float(logs.min()), float(logs.max())
    reach = max(high - low, 0.02)  # equal rounds lie on one line

    def height(log: float) -> float:
        return round(HIGH / 2 - (log - (low + high) / 2) / reach * (HIGH - 12), 1)

    apart = (WIDE - 12) / max(len(logs) - 1, 1)
    dots = "".join(f"M{6 + n * apart:.0f} {height(log):g}h0" for n, log in enumerate(logs))
    ends = (numbers.factor(float(np.exp(end))) for end in (low, high))
    half = map(numbers.factor, np.quantile(ratios, (0.25, 0.75)))
    count = numbers.counted(len(logs), "round", "rounds")
    text = f"{count}, {' to '.join(ends)}; half of them {' to '.join(half)}"
    return Strip(text, dots, height(0.0) if low <= 0 <= high else None)

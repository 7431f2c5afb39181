"""Splits the gap between eager and a mode into the steps of `bench.records.gap_steps`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from modescope.bench.records.gap_steps import AGAIN, EAGER, FUSION, LADDER, TRIALS, UNFUSED
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate


def by_variant(
    variants: Sequence[str] | None, rounds_s: Sequence[float] | None
) -> dict[str, Sequence[float]]:
    """Returns the latencies of each variant in each round, from the columns that hold them.

    `rounds_s` has all rounds of the first of `variants`, then all of the second, and so on.
    """
    if not variants or not rounds_s:
        return {}
    count = len(rounds_s) // len(variants)
    return {name: rounds_s[at * count : (at + 1) * count] for at, name in enumerate(variants)}


def rungs(variants: Mapping[str, Sequence[float]]) -> list[str]:
    """Returns the variants of the ladder that were timed, from eager to the mode."""
    return [name for name in (EAGER, *(step.name for step in LADDER)) if name in variants]


def split(variants: Mapping[str, Sequence[float]]) -> dict[str, Estimate | None]:
    """Returns what each step saves as a share of eager's call in the same round; added is negative.

    `variants`: a result of `by_variant`. The result maps `step_<name>` to the share of a step,
    `steps_gap` to that of all steps, `steps_control` to that of the control, which nothing
    explains, `steps_rest` to the gap less the sum of the steps (medians do not add up exactly), and
    `with_<name>` to how many times as fast the mode is with a change.
    """
    ladder = rungs(variants)
    if len(ladder) < 2:
        return {}

    def share(before: str, after: str) -> Estimate | None:
        pairs = zip(variants[before], variants[after], strict=True)
        return estimates.ratio([slow - fast for slow, fast in pairs], variants[EAGER])

    mode = ladder[-1]
    steps = {f"step_{after}": share(before, after)
             for before, after in pairwise(ladder)}  # fmt: skip
    found: dict[str, Estimate | None] = {**steps, "steps_gap": share(EAGER, mode)}
    gap, known = found["steps_gap"], [step.value for step in steps.values() if step is not None]
    if gap is not None:
        found["steps_rest"] = Estimate(gap.value - sum(known), None, None)
    if AGAIN in variants:
        found["steps_control"] = share(mode, AGAIN)
    if UNFUSED in variants and "code" in variants:
        found[f"step_{FUSION.name}"] = share(UNFUSED, "code")
    for trial in TRIALS:
        if trial.name in variants:
            found[f"with_{trial.name}"] = estimates.ratio(variants[mode], variants[trial.name])
    return found

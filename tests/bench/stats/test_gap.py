"""The gap between eager and a mode, split into steps by latencies whose truth is planted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from modescope.bench.records.gap_steps import AGAIN, EAGER, LADDER, TRIALS, UNFUSED
from modescope.bench.records.summary_columns import OF_GAP
from modescope.bench.stats import gap
from modescope.bench.stats.estimates import Estimate

ROUNDS = 12  # the fewest with an interval, which goes from the third smallest to the third largest
US = {
    "eager": 100.0, "autograd": 80.0, "autocast": 90.0, "python": 75.0, "code": 30.0,
    "entry": 60.0, "guards": 64.0, "capture": 16.0, "again": 17.0, "unfused": 52.0,
    "skip_guard_on_inbuilt_nn_modules": 15.0, "skip_guard_on_all_nn_modules": 14.0,
    "keep_tensor_guards": 12.0, "skip_all_guards": 10.0, "flush_denormal": 8.0,
    "contiguous": 5.0, "static": 4.0,
}  # fmt: skip
"""A latency per variant, no two of which differ by the same."""


def steady(*names: str) -> dict[str, Sequence[float]]:
    """Variants that take the same in all rounds."""
    return {name: [US[name] * 1e-6] * ROUNDS for name in names}


def shares(found: dict[str, Estimate | None]) -> dict[str, float]:
    """The values of estimates, rounded to 1e-9."""
    return {name: round(share.value, 9) for name, share in found.items() if share is not None}


def test_rounds_are_parted_by_variant_in_their_order() -> None:
    assert gap.by_variant(("eager", "code"), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)) == {
        "eager": (1.0, 2.0, 3.0),
        "code": (4.0, 5.0, 6.0),
    }


@pytest.mark.parametrize("absent", [None, ()])
def test_without_variants_there_are_no_rounds(absent: Sequence[str] | None) -> None:
    assert gap.by_variant(absent, (1.0,)) == {}
    assert gap.by_variant(("eager",), None) == {}


def test_the_mode_is_the_last_rung_that_was_timed_in_whatever_order() -> None:
    assert gap.rungs(steady("again", "guards", "code", "eager", "static", "autograd")) == [
        "eager", "autograd", "code", "guards"
    ]  # fmt: skip


def test_every_step_control_and_trial_is_a_difference_of_its_own() -> None:
    assert shares(gap.split(steady(*US))) == {
        "step_autograd": 0.2, "step_autocast": -0.1, "step_python": 0.15, "step_code": 0.45,
        "step_entry": -0.3, "step_guards": -0.04, "step_capture": 0.48,
        "steps_gap": 0.84, "steps_rest": 0.0, "steps_control": -0.01, "step_fusion": 0.22,
        "with_skip_guard_on_inbuilt_nn_modules": round(16 / 15, 9),
        "with_skip_guard_on_all_nn_modules": round(16 / 14, 9),
        "with_keep_tensor_guards": round(16 / 12, 9), "with_skip_all_guards": 1.6,
        "with_flush_denormal": 2.0, "with_contiguous": 3.2, "with_static": 4.0,
    }  # fmt: skip


def test_every_column_of_the_gap_comes_of_some_variant() -> None:
    known = {EAGER, AGAIN, UNFUSED, *(entry.name for entry in (*LADDER, *TRIALS))}
    assert known == set(US)
    assert set(gap.split(steady(*US))) == {number.name for number in OF_GAP}


def test_a_rung_that_is_missing_joins_its_step_to_the_next() -> None:
    found = shares(gap.split(steady("eager", "python", "code", "guards", "again")))
    assert found == {
        "step_python": 0.25, "step_code": 0.45, "step_guards": -0.34, "steps_gap": 0.36,
        "steps_rest": 0.0, "steps_control": 0.47,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "absent"),
    [
        (("eager", "code", "again"), "step_fusion"),
        (("eager", "entry", "unfused"), "step_fusion"),
        (("eager", "code", "unfused"), "steps_control"),
        (("eager", "code"), "with_static"),
    ],
)
def test_what_was_not_timed_has_no_column(names: tuple[str, ...], absent: str) -> None:
    assert absent not in gap.split(steady(*names))


def test_of_one_variant_nothing_is_split() -> None:
    assert gap.split({}) == {}
    assert gap.split(steady("eager", "again", "unfused", "static")) == {}


def test_shares_are_of_eagers_call_in_the_same_round_and_add_up_in_each() -> None:
    """The machine becomes slower by a factor of 12 from the first round to the last."""
    draw = np.random.default_rng(5)
    pace = np.arange(1, ROUNDS + 1) * 1e-6
    ladder = {
        name: pace * US[name] * (1 + 0.02 * draw.standard_normal(ROUNDS))
        for name in ("eager", "autograd", "python", "code", "entry", "guards")
    }
    found = gap.split({name: [*rounds] for name, rounds in ladder.items()})
    rungs = [*ladder.values()]
    of_rounds = [(slow - fast) / ladder["eager"] for slow, fast in pairwise(rungs)]
    whole = 1 - ladder["guards"] / ladder["eager"]
    np.testing.assert_allclose(sum(of_rounds), whole)
    for name, values in zip([*ladder][1:], of_rounds, strict=True):
        step = found[f"step_{name}"]
        assert step is not None
        ordered = np.sort(values)
        assert (step.low, step.high) == pytest.approx((ordered[2], ordered[-3]))
        assert step.value == pytest.approx(np.median(values))
    rest = found["steps_rest"]
    assert rest is not None
    assert rest.value == pytest.approx(np.median(whole) - sum(map(np.median, of_rounds)))
    assert rest.value != pytest.approx(0, abs=1e-4)  # medians do not add up
    assert rest.low is None
    assert rest.high is None


def test_a_side_with_a_latency_that_is_none_has_no_share() -> None:
    variants = steady("eager", "code", "guards") | {"code": [30e-6] * 11 + [float("nan")]}
    found = gap.split(variants)
    assert (found["step_code"], found["step_guards"]) == (None, None)
    assert shares(found)["steps_gap"] == 0.36

"""Which changes fail: planted ones do, noise does not, and an empty comparison never passes."""

from __future__ import annotations

from typing import Any

import pytest

from modescope.analysis.compare.arguments import FAILED, PASSED, UNDECIDED
from modescope.bench.records.errors import UsageError
from tests.helpers.comparisons import LATENCIES_S, TIMED, compared, of_mode, processes
from tests.helpers.studies import not_measured


@pytest.mark.parametrize(
    ("slower", "eager", "status", "verdicts"),
    [
        ({}, 1.0, PASSED, {"eager": "no worse", "compile": "no worse"}),
        (
            {"compile": 1.06, "no_grad": 0.93},
            1.0,
            FAILED,
            {"eager": "no worse", "compile": "slower", "no_grad": "faster"},
        ),
        # a faster eager does not fail the modes, and a slower one is not their gain
        ({}, 0.93, PASSED, {"compile": "undecided: eager may have become faster"}),
        ({}, 1.08, FAILED, {"eager": "slower", "compile": "no worse"}),
        # eager against itself is a control
        (
            {"eager": 1.05, "compile": 1.2},
            1.0,
            PASSED,
            dict.fromkeys(("eager", "compile"), "undecided"),
        ),
    ],
)
def test_planted_changes_fail_and_noise_does_not(
    slower: dict[str, float], eager: float, status: int, verdicts: dict[str, str]
) -> None:
    one = compared(processes(1), processes(2, slower, eager=eager))
    assert (one.status, one.gates, one.differences) == (status, TIMED, [])
    assert {mode: of_mode(one, mode).timing.verdict for mode in verdicts} == verdicts
    for mode, verdict in verdicts.items():
        row = of_mode(one, mode)
        assert row.failures == (["slower"] if verdict == "slower" else [])
        assert row.changed is (verdict not in ("no worse", "undecided"))


def test_a_change_is_stated_with_its_size() -> None:
    one = compared(processes(1), processes(2, {"compile": 1.06}))
    timing = of_mode(one, "compile").timing
    assert timing.against_eager.low < 0.06 < timing.against_eager.high
    assert timing.latency.value == pytest.approx(0.06, abs=0.02)
    assert timing.speedup_old / timing.speedup_new == pytest.approx(1.06, abs=0.01)
    assert compared(processes(1), processes(2, eager=0.93)).eager[0].change.high < -0.04


def test_a_mode_that_lost_to_eager_fails_within_the_margin_of_latency() -> None:
    modes = (*LATENCIES_S,)
    old, new = processes(1, count=12, modes=modes), processes(2, {"compile": 1.02}, count=12)
    one = of_mode(compared(old, new), "compile")
    assert one.failures == ["lost to eager"]
    assert compared(old, new, gates=("exact", "latency")).status == PASSED
    wide = compared(old, new, margin=0.1, latency_margin=0.1)
    assert (wide.status, of_mode(wide, "compile").changed) == (PASSED, False)


def test_fewer_than_three_replicates_never_fail_a_timing() -> None:
    old, new = processes(1, count=2), processes(2, {"compile": 2.0}, count=2)
    one = compared(old, new)
    assert one.status == PASSED
    timing = of_mode(one, "compile").timing
    assert (timing.verdict, timing.latency.low) == ("undecided", None)
    assert timing.latency.value == pytest.approx(1.0, abs=0.1)
    assert compared(old, new, strict=True).status == UNDECIDED


def test_sides_that_were_not_interleaved_fail_timings_only_on_request() -> None:
    old, new = processes(1), processes(2, {"compile": 1.2})
    one = compared(old, new, interleaved=False)
    assert (one.status, one.gates) == (PASSED, ("exact",))
    assert of_mode(one, "compile").timing.verdict == "slower"
    assert compared(old, new, interleaved=False, gates=TIMED).status == FAILED
    assert compared(old, new, interleaved=False, strict=True).status == PASSED


def test_blocks_of_one_side_only_are_not_interleaved() -> None:
    old = processes(1, count=5)
    assert compared(old, processes(2, count=4)).interleaved is False
    crashed = not_measured("compile", "crashed", "killed", replicate=4)
    four = [one for one in processes(2) if (one.work.mode, one.attempt.replicate) != ("compile", 4)]
    assert compared(old, [*four, crashed]).interleaved is True


@pytest.mark.parametrize(
    ("slower", "eager", "status"),
    [({}, 1.0, PASSED), ({"eager": 1.05}, 1.0, UNDECIDED), ({}, 0.93, UNDECIDED)],
)
def test_a_strict_comparison_is_undecided_as_its_rows_are(
    slower: dict[str, float], eager: float, status: int
) -> None:
    """By a control that is broken, or an eager that may have become faster."""
    new = processes(2, slower, eager=eager)
    assert compared(processes(1), new, strict=True).status == status


def test_an_undecided_row_says_what_could_have_been_shown() -> None:
    row = of_mode(compared(processes(1), processes(2, {"no_grad": 1.0095})), "no_grad")
    assert row.timing.verdict == "undecided"
    assert 0.01 < row.timing.detectable < 0.03
    assert row.timing.target == pytest.approx(0.02)  # of latency's margin it would be 4 %
    assert row.timing.replicates >= 2


def test_without_a_baseline_five_replicates_are_needed() -> None:
    alone: dict[str, Any] = {
        "baseline_mode": None, "baseline_dtype": None, "baseline_latency_rounds_s": None,
        "case_ran_first": None, "modes": ("compile",),
    }  # fmt: skip
    old = processes(1, count=5, **alone)
    assert compared(old, processes(2, {"compile": 1.2}, count=5, **alone)).status == FAILED
    few = compared(old[:4], processes(2, {"compile": 1.2}, count=4, **alone))
    assert (few.status, of_mode(few, "compile").timing.verdict) == (PASSED, "undecided")


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"in_effect": False, "in_effect_note": "same code as compile"}, "not in effect"),
        ({"budget": "smoke"}, "a smoke budget has no timing"),
    ],
)
def test_times_that_say_nothing_have_no_verdict(columns: dict[str, Any], why: str) -> None:
    one = compared(
        processes(1, of_mode={"compile": columns}),
        processes(2, {"compile": 2.0}, of_mode={"compile": columns}),
    )
    timing = of_mode(one, "compile").timing
    assert (timing.verdict, timing.why) == (None, why)
    assert one.status == PASSED


def test_nothing_compared_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"no row of old is in new"):
        compared(processes(1, model="mlp"), processes(2))
    failed = [not_measured("compile", "failed", "no compiler")]
    with pytest.raises(UsageError, match="nothing is compared: no row of the old side"):
        compared(failed, processes(2, modes=("compile",)))
    smoke: dict[str, Any] = {"budget": "smoke", "budget_settings": None}
    with pytest.raises(UsageError, match=r"no row has a timing that counts \(a smoke budget"):
        compared(processes(1, **smoke), processes(2, **smoke), gates=("latency",))
    with pytest.raises(UsageError, match="nothing is compared by --gate launches"):
        compared(processes(1), processes(2), gates=("exact", "launches"))

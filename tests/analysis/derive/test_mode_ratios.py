"""Ratios of two modes from separate processes, against values worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.derive.against import BETWEEN_PROCESSES, NEEDED, ratio
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.bench.records.results import Record
from modescope.bench.stats.estimates import verdict
from tests.helpers.drawings import rows_of
from tests.helpers.studies import record

HALF = 0.02 * 13 / 39  # of the interval of ln(speedup) in one process of 40 rounds
WIDENING = math.log1p(BETWEEN_PROCESSES)


def _rows(folder: Path, *records: Record) -> dict[str, Row]:
    rows = phrases.as_rows(rows_of(folder, *records)[list(NEEDED)])
    return {row["mode"]: row for row in rows}


def _replicates(mode: str, middle: float, offsets: Sequence[float]) -> list[Record]:
    return [
        record(mode, speedup=middle * math.exp(offset), replicate=n)
        for n, offset in enumerate(offsets)
    ]


def _expected(value: float, half_width: float) -> list[Any]:
    ends = (value * math.exp(-half_width), value * math.exp(half_width))
    return [pytest.approx(each, rel=1e-3) for each in (value, *ends)]


def _numbers(rows: dict[str, Row], one: str, other: str) -> list[float | None]:
    found = ratio(rows[one], rows[other])
    assert found is not None
    return [found.value, found.low, found.high]


def test_single_processes_have_the_worst_case_widened_by_the_spread_between_them(
    tmp_path: Path,
) -> None:
    one, other = record("compile", speedup=1.5), record("inference_mode", speedup=1.25)
    rows = _rows(tmp_path, one, other)
    expected = _expected(1.2, 2 * HALF + WIDENING)
    assert _numbers(rows, "compile", "inference_mode") == expected
    assert _numbers(rows, "inference_mode", "compile") == _expected(1 / 1.2, 2 * HALF + WIDENING)


def test_three_processes_of_both_have_welchs_interval(tmp_path: Path) -> None:
    # sd 0.01 each: error 0.01 * sqrt(2 / 3) with 4 degrees of freedom, t(4) = 2.7764
    offsets = (-0.01, 0.0, 0.01)
    modes = [*_replicates("compile", 1.5, offsets), *_replicates("no_grad", 1.25, offsets)]
    half_width = 2.7764 * 0.01 * math.sqrt(2 / 3)
    assert _numbers(_rows(tmp_path, *modes), "compile", "no_grad") == _expected(1.2, half_width)


def test_a_row_with_a_larger_spread_decides_the_degrees_of_freedom(tmp_path: Path) -> None:
    # The spread of one side vanishes, so Welch's freedom is that of the other: t(2) = 4.3027
    modes = [
        *_replicates("compile", 1.5, (-0.01, 0.0, 0.01)),
        *_replicates("no_grad", 1.25, (0.0, 0.0, 0.0, 0.0)),
    ]
    half_width = 4.3027 * 0.01 / math.sqrt(3)
    assert _numbers(_rows(tmp_path, *modes), "compile", "no_grad") == _expected(1.2, half_width)


@pytest.mark.parametrize("counts", [(3, 1), (1, 3), (2, 2), (5, 2)])
def test_too_few_processes_on_either_side_are_widened(
    tmp_path: Path, counts: tuple[int, int]
) -> None:
    modes = [
        one
        for mode, middle, count in zip(("compile", "no_grad"), (1.5, 1.25), counts, strict=True)
        for one in _replicates(mode, middle, [0.0] * count)
    ]
    _, low, high = _numbers(_rows(tmp_path, *modes), "compile", "no_grad")
    assert low is not None
    assert high is not None
    assert low < 1.2 / (1 + BETWEEN_PROCESSES) * 1.0001
    assert high > 1.2 * (1 + BETWEEN_PROCESSES) * 0.9999


def test_ratios_with_the_baseline_are_paired(tmp_path: Path) -> None:
    # The baseline's run against itself, 0.98, is noise and enters neither ratio.
    rows = _rows(tmp_path, record("eager", speedup=0.98), record("compile", speedup=1.5))
    assert _numbers(rows, "compile", "eager") == _expected(1.5, HALF)
    assert _numbers(rows, "eager", "compile") == _expected(1 / 1.5, HALF)


def test_a_row_to_itself_is_one_without_an_interval(tmp_path: Path) -> None:
    rows = _rows(tmp_path, record("eager"), record("compile", speedup=1.5))
    assert [_numbers(rows, mode, mode) for mode in rows] == [[1.0, None, None]] * 2


@pytest.mark.parametrize(
    "differs",
    [{"budget": "smoke"}, {"status": "oom", "reason": "why"}, {"baseline_latency_rounds_s": None}],
)
def test_there_is_no_ratio_without_both_speedups(tmp_path: Path, differs: dict[str, Any]) -> None:
    rows = _rows(tmp_path, record("compile", speedup=1.5, **differs), record("no_grad"))
    assert ratio(rows["compile"], rows["no_grad"]) is None
    assert ratio(rows["no_grad"], rows["compile"]) is None


@pytest.mark.parametrize("known", [1, 2])
def test_processes_without_a_speedup_do_not_count(tmp_path: Path, known: int) -> None:
    """All three ended ok, but in the others the baseline was wrong, so nothing is divided."""
    others = [
        record("compile", replicate=n, baseline_latency_rounds_s=None) for n in range(known, 3)
    ]
    three = _replicates("inference_mode", 1.25, (-0.01, 0.0, 0.01))
    rows = _rows(tmp_path, *_replicates("compile", 1.5, [0.0] * known), *others, *three)
    assert rows["compile"]["speedup_processes"] == known
    of_three = 4.3027 * 0.01 / math.sqrt(3)
    expected = _expected(1.2, HALF + of_three + WIDENING)
    assert _numbers(rows, "compile", "inference_mode") == expected


def test_a_process_without_an_interval_leaves_the_ratio_without_one(tmp_path: Path) -> None:
    few = record("compile", speedup=1.5, rounds=5, replicate=2)
    three = _replicates("inference_mode", 1.25, [0.0] * 3)
    rows = _rows(tmp_path, *_replicates("compile", 1.5, [0.0] * 2), few, *three)
    assert _numbers(rows, "compile", "inference_mode") == [pytest.approx(1.2), None, None]


def test_a_smoke_run_has_no_ratio_even_of_the_baseline(tmp_path: Path) -> None:
    rows = _rows(tmp_path, record("eager", budget="smoke"), record("compile", speedup=1.5))
    assert ratio(rows["eager"], rows["compile"]) is None


def test_without_rounds_for_an_interval_there_is_a_value_alone(tmp_path: Path) -> None:
    rows = _rows(tmp_path, record("compile", speedup=1.5, rounds=5), record("no_grad", speedup=1.2))
    assert _numbers(rows, "compile", "no_grad") == [pytest.approx(1.25), None, None]


@pytest.mark.parametrize(("count", "within"), [(1, (0.94, 0.975)), (5, (0.94, 0.975))])
def test_intervals_hold_the_true_ratio_over_processes(
    count: int, within: tuple[float, float]
) -> None:
    """Of 2,000 pairs whose processes differ by 1.1 % (2.3 % between the ends of some four)."""
    source = np.random.default_rng(1)
    spread, known = 0.011, 0
    for _ in range(2000):
        one, other = (_simulated(mode, source.normal(0, spread, count)) for mode in ("a", "b"))
        found = ratio(one, other)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        known += found.low <= 1 <= found.high
    assert within[0] <= known / 2000 <= within[1]


def _simulated(mode: str, logarithms: Any) -> Row:
    """A row with intervals of 0.2 % within its processes."""
    value = math.exp(logarithms.mean())
    spread = float(logarithms.std(ddof=1)) if len(logarithms) > 1 else None
    return {
        "run_id": mode, "mode": mode, "dtype": "fp32", "baseline_mode": "eager",
        "baseline_dtype": "fp32", "budget_rank": 2, "speedup": value,
        "speedup_ci_low": value / 1.002, "speedup_ci_high": value * 1.002,
        "speedup_process_spread": spread, "speedup_processes": len(logarithms),
    }  # fmt: skip


def test_equal_code_in_two_processes_gets_no_verdict(tmp_path: Path) -> None:
    # What the reference study's MLP showed: 0.984 and 1.006 for the same code.
    rows = _rows(
        tmp_path,
        record("compile", speedup=0.984, spread=0.002),
        record("max-autotune", speedup=1.006, spread=0.002),
    )
    assert verdict(ratio(rows["max-autotune"], rows["compile"])) == "inconclusive"

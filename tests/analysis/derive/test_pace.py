"""The gain of further threads: over the fewest, at equal pace, of trusted rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.estimates import values
from modescope.bench.records.results import Record
from tests.helpers.derivations import studies_of
from tests.helpers.drawings import rows_of
from tests.helpers.studies import PACE_S, with_threads


def gains(folder: Path, *records: Record) -> dict[int, float]:
    rows = rows_of(folder, *records).set_index("threads")
    return {int(str(count)): gain for count, gain in values(rows["threads_gain"]).items()}


def test_the_gain_is_over_the_fewest_threads(tmp_path: Path) -> None:
    found = gains(
        tmp_path, with_threads(4, 100e-6), with_threads(2, 200e-6), with_threads(8, 50e-6)
    )
    assert math.isnan(found[2])
    assert found[4] == pytest.approx(2.0, rel=0.01)
    assert found[8] == pytest.approx(4.0, rel=0.01)


def test_a_process_that_ran_at_half_the_pace_gains_nothing_by_that(tmp_path: Path) -> None:
    """Two processes of the same time at full pace, the first of which the machine slowed down."""
    slow = with_threads(1, 200e-6, pace_rounds_s=(2 * PACE_S,) * 40)
    assert gains(tmp_path / "paced", slow, with_threads(2, 100e-6))[2] == pytest.approx(1.0, 0.01)
    unknown = with_threads(1, 200e-6, pace_rounds_s=None)
    as_measured = gains(tmp_path / "unknown", unknown, with_threads(2, 100e-6))
    assert as_measured[2] == pytest.approx(2.0, rel=0.01)


def test_another_case_or_an_unreliable_row_is_no_reference(tmp_path: Path) -> None:
    others: list[dict[str, Any]] = [
        {"mode": "eager"}, {"dtype": "bf16"}, {"compile_cache": "warm"}, {"shape": '{"batch":8}'},
        {"environment_id": "env-2"}, {"baseline_mode": "no_grad"}, {"in_effect": False},
        {"budget": "smoke"}, {"status": "wrong_result", "reason": "why"}, {"rounds": 5},
        {"flags": ("contended",)},
    ]  # fmt: skip
    two = with_threads(2, 100e-6)
    pairs = [
        *([with_threads(1, 200e-6, **other), two] for other in others),
        [with_threads(1, 200e-6), with_threads(2, 100e-6, flags=("contended",))],
    ]
    for rows in studies_of(tmp_path, pairs):
        assert [row["threads_gain"] for row in rows] == [None, None]

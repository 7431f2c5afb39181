from __future__ import annotations

import math

import pandas as pd
import pytest

from modescope.analysis.derive.against import against, in_place_of_the_baseline
from modescope.analysis.estimates import highs, lows, values
from modescope.analysis.metrics import exported, flat
from modescope.bench.stats.estimates import Estimate
from tests.helpers.derivations import table_of
from tests.helpers.paths import REFERENCE

COLUMN = pd.Series([Estimate(2.0, 1.0, 3.0), None, Estimate(4.0, None, None)], dtype="object")


def test_each_part_of_a_column_is_numbers_with_nan_where_it_is_unknown() -> None:
    nan = math.nan
    parts = [[*part(COLUMN)] for part in (values, lows, highs)]
    assert parts == [
        pytest.approx(expected, nan_ok=True)
        for expected in ([2.0, nan, 4.0], [1.0, nan, nan], [3.0, nan, nan])
    ]
    assert values(COLUMN.iloc[1:2]).dtype == "float64"


@pytest.mark.parametrize("study", ["nvidia-h100", "amd-epyc-2-cores"])
def test_an_unknown_estimate_is_none_and_three_numbers_are_only_exported(study: str) -> None:
    table = against(table_of(str(REFERENCE / study)), "eager")
    columns = [str(name) for name in table]
    names = [name for name in columns if len(exported(name)) == 3]
    assert {"speedup", "latency_s", "fusion_gain", "against_speedup"} <= {*names}
    for rows in (table, in_place_of_the_baseline(table)):
        held = {type(value) for name in names for value in rows[name]}
        assert held == {Estimate, type(None)}
    assert not [name for name in columns if "_ci_" in name]
    numbers = flat(table)
    assert numbers["speedup_ci_low"].equals(lows(table["speedup"]))
    assert numbers["latency_ci_high_s"].equals(highs(table["latency_s"]))
    assert numbers["baseline_latency_s"].equals(values(table["baseline_latency_s"]))
    assert "baseline_latency_ci_low_s" not in numbers

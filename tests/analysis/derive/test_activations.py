from __future__ import annotations

from pathlib import Path

import pytest

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.series import saved, series
from tests.helpers.drawings import series_of
from tests.helpers.pass_columns import cpu_training
from tests.helpers.studies import save, saving_steps


def test_saved_bytes_are_split_by_their_dependence_on_the_batch(tmp_path: Path) -> None:
    (one,) = saved(series_of(tmp_path, *saving_steps("amp", (1300, 1600, 2200, 3400))))
    assert one.sizes == (1, 2, 4, 8)
    assert (one.per_unit_bytes, one.fixed_bytes, one.is_straight) == (300, 1000, True)


@pytest.mark.parametrize(("middle_bytes", "is_straight"), [(1615, True), (1617, False)])
def test_a_line_is_straight_within_one_percent(
    tmp_path: Path, middle_bytes: int, is_straight: bool
) -> None:
    """From 1300 at batch 1 to 3400 at batch 8: 1600 at batch 2, and 16 are a percent of 1615."""
    steps = saving_steps("amp", (1300, middle_bytes, 2200, 3400))
    (one,) = saved(series_of(tmp_path, *steps))
    assert one.is_straight is is_straight


def test_each_set_of_training_options_has_its_own_series(tmp_path: Path) -> None:
    plain = [one for batch in (1, 8, 64) for one in cpu_training(batch)]
    again = [one for batch in (1, 8, 64) for one in cpu_training(batch, training='{"lr":0.1}')]
    rows = derived(save([*plain, *again], tmp_path))
    mixed = [part for _, part in rows.groupby("training")]
    assert [len(series(part)) for part in mixed] == [1, 1]

"""The table of metrics: which rows have values, and what is left as stored."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from modescope.analysis.derive.registry import METRICS, derive
from modescope.analysis.derive.select import latest
from modescope.analysis.load import read
from tests.helpers.derivations import rows_of_each
from tests.helpers.pass_columns import BOUNDS, GENERATED, memory, profiled
from tests.helpers.studies import cpu_clocks, not_measured, record, save

LISTS = ("flags", "flags_touch")


def test_only_ok_rows_have_derived_values(tmp_path: Path) -> None:
    passes = profiled(9, 1e-4) | memory(1000, 10) | BOUNDS | GENERATED | cpu_clocks(357e-6, 50e-6)
    statuses = ("failed", "wrong_result", "oom", "timeout", "crashed")
    lost = (record(status=status, reason="it went wrong", **passes) for status in statuses)
    for row in rows_of_each(tmp_path, lost):
        assert {m.name for m in METRICS if row[m.name] is not None} == {*LISTS}, row["status"]


def test_deriving_leaves_stored_columns_unchanged(tmp_path: Path) -> None:
    study = save([record(), not_measured("amp", "skipped", "why")], tmp_path)
    runs = latest(read(study).table)
    stored = [name for name in runs if name != "flags" and not str(name).startswith("_")]
    before = runs[stored].copy(deep=True)
    rows = derive(runs)
    pd.testing.assert_frame_equal(rows[before.columns], before)
    assert [list(values) for name in LISTS for values in rows[name]] == [[]] * 4

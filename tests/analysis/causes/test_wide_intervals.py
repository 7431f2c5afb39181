"""What causes and remedies say of a speedup with a wide interval: its ends only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.causes.finding import findings
from modescope.bench.stats.estimates import Estimate
from tests.helpers.causes import of_last, profiled, rows_of
from tests.helpers.rows import ends, row_with
from tests.helpers.studies import cpu_clocks, record

WIDE: dict[str, Any] = {"speedup": Estimate(10.73, 1.29, 13.42)}


def test_of_a_wide_interval_a_cause_claims_what_its_end_proves(tmp_path: Path) -> None:
    rows = rows_of([record("eager"), record("inference_mode", speedup=10.73)], tmp_path)
    found = {one.code: one for one in of_last(rows, **WIDE)}["no_autograd"]
    assert found.share == pytest.approx(1 - 1 / 1.29)
    assert "is at least 1.29× as fast as eager: " in found.text
    assert "saves at least 22 % of" in found.text
    assert "10.7" not in found.text
    narrow = {one.code: one for one in of_last(rows)}["no_autograd"]
    assert narrow.share == pytest.approx(1 - 1 / 10.73, abs=0.001)


def test_of_a_wide_interval_a_remedy_names_no_middle(tmp_path: Path) -> None:
    other, eager = rows_of([record("inference_mode", speedup=2.0), record("eager")], tmp_path)
    left_on = findings([row_with(other, **WIDE), row_with(eager, speedup=ends(high=1.02))])[-1]
    (sentence,) = (one.sentence for one in left_on if one.code == "grad_left_on")
    assert "is at least 1.2" in sentence


def test_of_a_wide_interval_a_limit_is_that_of_its_end(tmp_path: Path) -> None:
    floor: dict[str, Any] = {
        "least_bytes": 900_000, "flops": 1, "ceiling_bytes_per_s": 1e10,
        "ceiling_flops_per_s": 1e12,
    }  # fmt: skip
    rows = rows_of([record("no_grad", 1e-4, 1.0, **cpu_clocks(1e-4, 1e-6), **floor)], tmp_path)
    for low, limit in ((0.99, "1.11×"), (0.6, "1.22×")):
        found = of_last(rows, speedup=ends(low=low), latency_paired_s=ends(high=110e-6))
        (sentence,) = (one.sentence for one in found if one.code == "near_floor")
        assert f"can be at most {limit}" in sentence


def test_of_a_wide_interval_another_mode_is_told_by_an_end(tmp_path: Path) -> None:
    profile = profiled(100e-6, ("aten::addmm", 4, 80e-6), cpu_instructions=None)
    records = [record("compile", speedup=2.0), record("no_grad", speedup=1.0, **profile)]
    other, row = rows_of(records, tmp_path)
    rows = [row_with(other, speedup=ends(low=1.2, high=2.4)), row]
    (remedy,) = (one.remedy for one in of_last(rows) if one.code == "unchanged_kernels")
    assert remedy.startswith("compile fp32 is at least 1.1")

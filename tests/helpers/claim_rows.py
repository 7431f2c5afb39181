"""Rows of claims that a test made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from modescope.bench.tools.claims.checking import ClaimRow
from modescope.bench.tools.claims.claim import HOLDS

ROW = ClaimRow(
    claim="view-contiguous",
    chapter="views and allocation",
    statement="`.view` can only be called on contiguous tensors",
    source=("000 .view",),
    needs=("cpu",),
    method="Views of `x | y`.",
    verdict=HOLDS,
    because="all were refused",
    limits=(),
    counter_example=None,
    devices=("cpu",),
    snippet="print(1 < 2)",
    printed="True\n",
    seconds=0.1,
)


def row(**changes: Any) -> ClaimRow:
    """ROW with changes."""
    return replace(ROW, **changes)

"""Rows of claims that a test made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from modescope.bench.tools.claims.check import ClaimRow
from modescope.bench.tools.claims.claim import HOLDS

ROW = ClaimRow(
    claim="view-contiguous",
    statement="`.view` can only be called on contiguous tensors",
    verdict=HOLDS,
    because="all were refused",
    limits=(),
    counter_example=None,
    status="ok",
    reason=None,
    tested_on="cpu",
    printed="True\n",
    seconds=0.1,
)


def row(**changes: Any) -> ClaimRow:
    """ROW with changes."""
    return replace(ROW, **changes)

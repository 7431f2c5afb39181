"""Answers that a test made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from modescope.bench.tools.claims.checking import ClaimResult
from modescope.bench.tools.claims.verdict import HOLDS

ANSWER = ClaimResult(
    claim="view-contiguous",
    chapter="views and allocation",
    statement="`.view` can only be called on contiguous tensors",
    source=("000 .view",),
    needs=("cpu",),
    measured="Views of `x | y`.",
    rule="Holds if <none> is accepted.",
    verdict=HOLDS,
    because="all were refused",
    limits=(),
    counter_example=None,
    devices=("cpu",),
    status="ok",
    reason=None,
    snippet="print(1 < 2)",
    printed="True\n",
    seconds=0.1,
)


def answer(**changes: Any) -> ClaimResult:
    return replace(ANSWER, **changes)

"""What rules say: each part of a sentence comes from the field that it speaks of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.claims.compiling import RECOMPILED
from tests.helpers.claims.dispatch import marks
from tests.helpers.claims.examples import decide
from tests.helpers.claims.views import ON_CUDA

FAST = (3.0, 2.9, 3.1)


@pytest.mark.parametrize(
    ("id", "observed", "because"),
    [
        (
            "recompile-dynamic",
            RECOMPILED,
            "a second size compiles once more, others do not; the first call under no_grad "
            "compiles; under dynamic=False each of the first 4 sizes compiles",
        ),
        (
            "recompile-dynamic",
            RECOMPILED | {"static": (1, 2, 2, 3)},
            "dynamic=False compiled nothing for size 3, below the limit of 8",
        ),
        (
            "profiler-launch-bound",
            marks(FAST, (1.1, 1.05, 1.15)),
            "not marked: the interval contains 1.100× or is unknown: large 0 (1.100×)",
        ),
        (
            "empty-strided-cuda",
            ON_CUDA | {"kernel": False},
            "the call works, and the dispatcher has no CUDA kernel for aten::empty_strided",
        ),
    ],
)
def test_a_verdict_says_what_was_seen(id: str, observed: Any, because: str) -> None:
    assert decide(id, observed).because == because


@pytest.mark.parametrize(
    ("id", "observed", "limits"),
    [
        (
            "profiler-launch-bound",
            marks(FAST, (1.3, 1.2, 1.4), (1.1, 1.05, 1.15)),
            [
                "sped up without the mark, too: "
                "speedup by a CUDA graph of large 0: 1.300× [1.200×, 1.400×]",
                "the interval contains 1.100× or is unknown: large 1 (1.100×)",
            ],
        ),
        (
            "recompile-dynamic",
            RECOMPILED | {"static": (1, 2, 2), "static_called": (1, 2, 2), "limit": 2},
            [
                "at the limit compiling stops: torch._dynamo.config.recompile_limit: 2, graphs "
                "after calls with one more row each, dynamic=False: (1, 2, 2), calls of compiled "
                "code meanwhile: (1, 2, 2)"
            ],
        ),
    ],
)
def test_a_limit_is_a_clause(id: str, observed: Any, limits: list[str]) -> None:
    assert list(decide(id, observed).limits) == limits

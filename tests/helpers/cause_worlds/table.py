"""The worlds of all causes."""

from __future__ import annotations

from collections.abc import Mapping

from tests.helpers.cause_worlds import (
    calls,
    compiler,
    costs_and_machine,
    graphs,
    kernels,
    overhead,
    precision,
)
from tests.helpers.cause_worlds.world import World

WORLDS: Mapping[str, World] = {
    **graphs.WORLDS,
    **calls.WORLDS,
    **compiler.WORLDS,
    **overhead.WORLDS,
    **kernels.WORLDS,
    **precision.WORLDS,
    **costs_and_machine.WORLDS,
}
"""By the code of the cause. A cause without a world fails tests/analysis/causes/test_worlds.py."""

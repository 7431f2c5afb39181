"""For each cause a world in which it is named, and worlds near it in which it is not."""

from __future__ import annotations

from collections.abc import Mapping

from tests.helpers.cause_worlds import compiler, graphs, kernels, machine, overhead, precision
from tests.helpers.cause_worlds.world import World

WORLDS: Mapping[str, World] = {
    **graphs.WORLDS,
    **compiler.WORLDS,
    **overhead.WORLDS,
    **kernels.WORLDS,
    **precision.WORLDS,
    **machine.WORLDS,
}
"""By the code of the cause."""

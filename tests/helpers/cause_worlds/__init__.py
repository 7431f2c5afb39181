"""For each cause a made-up study (`World`) that has it, and changes after which it has it not."""

from __future__ import annotations

from collections.abc import Mapping

from tests.helpers.cause_worlds import (
    autograd,
    compiler,
    graphs,
    kernels,
    overhead,
    own_kernels,
    precision,
    prepared,
    reads,
    steps,
)
from tests.helpers.causes import World

WORLDS: Mapping[str, World] = {
    **steps.WORLDS,
    **graphs.WORLDS,
    **compiler.WORLDS,
    **autograd.WORLDS,
    **overhead.WORLDS,
    **prepared.WORLDS,
    **reads.WORLDS,
    **kernels.WORLDS,
    **own_kernels.WORLDS,
    **precision.WORLDS,
}
"""Code of a cause -> its world."""

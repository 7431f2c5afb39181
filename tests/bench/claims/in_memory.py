"""The allocator and CUDA graphs: made-up observations.

Worlds are those of `pretended_memory`, since the experiments need a GPU or a pretended one.
"""

from __future__ import annotations

from dataclasses import replace

from bench.claims.chapters.caching import Freed, Rounded
from bench.claims.chapters.fragments import Fragmented, Reused
from bench.claims.chapters.graph_memory import Captured
from bench.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from tests.bench.claims.examples import Examples, World

MIB = 2**20

ROUNDED = Rounded(
    small={513: 1024},
    large={3 * MIB: 4 * MIB, 33 * MIB: 34 * MIB},
    segments={3 * MIB: 4 * MIB, 33 * MIB: 34 * MIB},
    settings=None,
)
FINER = replace(ROUNDED, large={3 * MIB: 3 * MIB, 33 * MIB: 33 * MIB})
FREED = Freed(
    size=100,
    kept=100,
    kept_by_driver=0,
    same_block=True,
    returned=100,
    returned_by_driver=100,
    shared=5,
    shared_left=20,
    intact=True,
)
REUSED = Reused(
    own=True,
    own_busy=True,
    other_busy=False,
    other_idle=True,
    user_busy=True,
    recorded_busy=False,
    recorded_idle=True,
)
FRAGMENTED = Fragmented(
    request=400,
    free=800,
    served_whole=True,
    served_pieces=False,
    message="out of memory",
    expandable=True,
    served_expandable=True,
    free_fine=750,
    served_fine=True,
)
CAPTURED = Captured(
    replays=5,
    right=5,
    strangers_hurt=0,
    pool=200,
    pool_live=100,
    overwritten=False,
    reused=True,
    before=6.0,
    after=14.0,
    of_the_other=14.0,
)

EXAMPLES: Examples = {
    "cache-rounding": {
        HOLDS: [ROUNDED],
        WITHIN_LIMITS: [FINER, replace(FINER, segments={3 * MIB: 20 * MIB, 33 * MIB: 34 * MIB})],
        REFUTED: [
            replace(ROUNDED, small={513: 513}),
            replace(FINER, segments={3 * MIB: 4 * MIB, 33 * MIB: 33 * MIB}),
        ],
    },
    "free-keeps": {
        HOLDS: [FREED, replace(FREED, same_block=False, kept_by_driver=-30)],
        REFUTED: [
            replace(FREED, kept=0, kept_by_driver=100),
            replace(FREED, kept_by_driver=100),
            replace(FREED, returned=0, returned_by_driver=0),
            replace(FREED, returned_by_driver=0),
            replace(FREED, intact=False),
            replace(FREED, shared_left=0),
        ],
    },
    "stream-reuse": {
        HOLDS: [REUSED],
        WITHIN_LIMITS: [replace(REUSED, other_idle=False), replace(REUSED, recorded_idle=False)],
        REFUTED: [replace(REUSED, other_busy=True), replace(REUSED, recorded_busy=True)],
        UNDECIDED: [
            replace(REUSED, own=False),
            replace(REUSED, own_busy=False),
            replace(REUSED, user_busy=False, recorded_busy=True),
        ],
    },
    "fragmentation": {
        HOLDS: [FRAGMENTED, replace(FRAGMENTED, free_fine=300, served_fine=False)],
        WITHIN_LIMITS: [replace(FRAGMENTED, served_fine=False)],
        REFUTED: [
            replace(FRAGMENTED, served_pieces=True),
            replace(FRAGMENTED, served_expandable=False),
        ],
        UNDECIDED: [
            replace(FRAGMENTED, served_whole=False),
            replace(FRAGMENTED, free=300),
            replace(FRAGMENTED, expandable=False),
        ],
    },
    "capture-alloc-safe": {
        HOLDS: [CAPTURED],
        WITHIN_LIMITS: [replace(CAPTURED, overwritten=True)],
        REFUTED: [
            replace(CAPTURED, right=4),
            replace(CAPTURED, strangers_hurt=1),
            replace(CAPTURED, pool=0, pool_live=0),
            replace(CAPTURED, after=6.0),
        ],
        UNDECIDED: [
            replace(CAPTURED, reused=False, after=6.0),
            replace(CAPTURED, after=0.0),
        ],
    },
}
WORLDS: list[World] = []

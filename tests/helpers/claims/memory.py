"""The allocator and CUDA graphs: made-up observations.

Worlds are those of `pretended_memory`, since the experiments need a GPU or a pretended one.
"""

from __future__ import annotations

from modescope.bench.tools.claims.chapters.allocator.caching import HELD, MIB, SHARED
from modescope.bench.tools.claims.chapters.allocator.fragments import REQUEST
from tests.helpers.claims.examples import Examples, Worlds, variants

ROUNDED = {
    "small": {513: 1024},
    "large": {3 * MIB: 4 * MIB, 33 * MIB: 34 * MIB},
    "segments": {3 * MIB: 4 * MIB, 33 * MIB: 34 * MIB},
}
FINER = {"large": {3 * MIB: 3 * MIB, 33 * MIB: 33 * MIB}}
FREED = {
    **{"kept": HELD, "kept_by_driver": 0, "returned": HELD, "returned_by_driver": HELD},
    "shared_left": 4 * SHARED,
}
FRAGMENTED = {"free": 2 * REQUEST, "free_fine": REQUEST, "served_fine": True}
CAPTURED = {
    **{"pool": 200, "pool_live": 100, "reused": True},
    **{"before": 6.0, "after": 14.0, "of_the_other": 14.0},
}

EXAMPLES: Examples = {
    "cache-rounding": variants(
        ROUNDED,
        holds_within_limits=[
            FINER,
            {**FINER, "segments": {3 * MIB: 20 * MIB, 33 * MIB: 34 * MIB}},
        ],
        refuted=[
            {"small": {513: 513}},
            {**FINER, "segments": {3 * MIB: 4 * MIB, 33 * MIB: 33 * MIB}},
        ],
    ),
    "free-keeps": variants(
        FREED,
        holds=[{"kept_by_driver": -30}],
        refuted=[
            {"kept": 0, "kept_by_driver": HELD},
            {"kept_by_driver": HELD},
            {"returned": 0, "returned_by_driver": 0},
            {"returned_by_driver": 0},
            {"shared_left": 0},
        ],
    ),
    "stream-reuse": variants({}, undecided=[{"user_busy": False, "own_waits": False}]),
    "fragmentation": variants(
        FRAGMENTED,
        holds=[{"free_fine": REQUEST - 1, "served_fine": False}],
        holds_within_limits=[{"served_fine": False}],
        undecided=[{"free": REQUEST - 1}, {"expandable": False, "served_expandable": False}],
    ),
    "capture-alloc-safe": variants(
        CAPTURED,
        refuted=[{"pool": 0, "pool_live": 0}, {"after": 6.0}],
        undecided=[{"reused": False, "after": 6.0}, {"after": 0.0}, {"pool_live": None}],
    ),
}
WORLDS: Worlds = {}

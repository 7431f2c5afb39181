"""Autocast: made-up observations, and a torch that does the opposite."""

from __future__ import annotations

import math
from typing import Any

import torch

from modescope.bench.tools.claims.chapters.autocast.casts import TRAINED
from modescope.bench.tools.claims.chapters.autocast.scaler import BRAIN, FIRST_SCALE, HALF, SCALED
from modescope.bench.tools.claims.verdict import HOLDS, REFUTED, WITHIN_LIMITS
from tests.helpers.claims.examples import Examples, World, Worlds, replaced, variants

FROZEN = "a frozen weight"
CAST = {"casts": {TRAINED: 1, FROZEN: 1}}

LEAST = {HALF: -24, SCALED: -40, BRAIN: -133}
ZERO = {HALF: 0.08, SCALED: 0.0, BRAIN: 0.0}

GOOD, BAD = "SGD, good gradients", "SGD, inf"
SKIPPED = {"good_scales": {GOOD: FIRST_SCALE}, "scales": {BAD: FIRST_SCALE / 2}, "then": 0.9}

EXAMPLES: Examples = {
    "autocast-cache": variants(
        CAST,
        holds_within_limits=[{"casts": {TRAINED: 1, FROZEN: 2}}],
        refuted=[{"casts": {TRAINED: 2, FROZEN: 2}}],
        undecided=[{"casts": {TRAINED: 0, FROZEN: 0}}],
    ),
    "scaler-underflow": variants(
        {"least": LEAST, "zero": ZERO},
        holds_within_limits=[{"zero": ZERO | {SCALED: 0.01}}],
        refuted=[
            {"zero": ZERO | {HALF: 0.0}},
            {"zero": ZERO | {BRAIN: 0.01}},
            {"least": LEAST | {BRAIN: -100}},
        ],
    ),
    "scaler-skips": variants(
        SKIPPED,
        holds_within_limits=[{"then": math.nan}, {"then": 1.0}],
        refuted=[{"scales": {BAD: FIRST_SCALE}}, {"good_scales": {GOOD: FIRST_SCALE / 2}}],
    ),
}

AUTOCAST, SCALER = torch.autocast, torch.amp.GradScaler
UPDATE = SCALER.update


def _uncached(*how: Any, **more: Any) -> Any:
    return AUTOCAST(*how, **{**more, "cache_enabled": False})


def _wide(device: str, dtype: torch.dtype) -> Any:
    return AUTOCAST(device, torch.bfloat16)


def _without_change(scaler: Any) -> None:
    before = scaler.get_scale()
    UPDATE(scaler)
    scaler._scale.fill_(before)


def _with_a_floor(scaler: Any) -> None:
    UPDATE(scaler)
    scaler._scale.clamp_(min=1.0)


def _made(scaler: Any, optimizer: Any, *_: Any, **__: Any) -> Any:
    return optimizer.step()


WORLDS: Worlds = {
    "autocast-cache": [
        World("autocast keeps nothing", REFUTED, replaced(torch, "autocast", _uncached)),
    ],
    "scaler-underflow": [
        World("half precision has bfloat16's range", REFUTED, replaced(torch, "autocast", _wide)),
        World(
            "the scaler does not scale",
            WITHIN_LIMITS,
            replaced(torch.amp, "GradScaler", lambda *_, **__: SCALER(enabled=False)),
        ),
    ],
    "scaler-skips": [
        World("the scale stays", REFUTED, replaced(SCALER, "update", _without_change)),
        World("every step is made", REFUTED, replaced(SCALER, "_maybe_opt_step", _made)),
        World("the scale has a floor", HOLDS, replaced(SCALER, "update", _with_a_floor)),
    ],
}

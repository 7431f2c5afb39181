"""Autocast: made-up observations, and a torch that does the opposite."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from bench.claims.chapters.autocast import TRAINED, Casts
from bench.claims.chapters.scaler import FIRST_SCALE, GOOD, Skipped
from bench.claims.chapters.underflow import Underflow
from bench.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from tests.bench.claims.examples import Examples, World

FROZEN = "a frozen weight"
HALF, SCALED = "float16 without scaling", "float16 with scaling"
BRAIN, BRAIN_SCALED = "bfloat16 without scaling", "bfloat16 with scaling"
LEAST = {HALF: -24, SCALED: -40, BRAIN: -133, BRAIN_SCALED: -149}
VANISHED = {HALF: 0.08, SCALED: 0.0, BRAIN: 0.0, BRAIN_SCALED: 0.0}
UNDERFLOW = Underflow(LEAST, VANISHED)

STEP, BAD = f"SGD, {GOOD}", "SGD, inf"
SKIPPED = Skipped(
    moved={STEP: True, BAD: False},
    state_changed={STEP: True, BAD: False},
    scales={STEP: FIRST_SCALE, BAD: FIRST_SCALE / 2},
    other=True,
    to_nothing=20,
    then=0.9,
)

EXAMPLES: Examples = {
    "autocast-cache": {
        HOLDS: [Casts({TRAINED: 1, FROZEN: 1}, stale=False)],
        WITHIN_LIMITS: [
            Casts({TRAINED: 1, FROZEN: 2}, stale=False),
            Casts({TRAINED: 1, FROZEN: 1}, stale=True),
        ],
        REFUTED: [Casts({TRAINED: 2, FROZEN: 2}, stale=False)],
        UNDECIDED: [Casts({TRAINED: 0, FROZEN: 0}, stale=False)],
    },
    "scaler-underflow": {
        HOLDS: [UNDERFLOW],
        WITHIN_LIMITS: [replace(UNDERFLOW, vanished=VANISHED | {SCALED: 0.01})],
        REFUTED: [
            replace(UNDERFLOW, vanished=VANISHED | {HALF: 0.0}),
            replace(UNDERFLOW, vanished=VANISHED | {BRAIN: 0.01}),
            replace(UNDERFLOW, least=LEAST | {BRAIN: -100}),
        ],
    },
    "scaler-skips": {
        HOLDS: [SKIPPED],
        WITHIN_LIMITS: [
            replace(SKIPPED, then=math.nan),
            replace(SKIPPED, state_changed={STEP: True, BAD: True}),
        ],
        REFUTED: [
            replace(SKIPPED, moved={STEP: True, BAD: True}),
            replace(SKIPPED, moved={STEP: False, BAD: False}),
            replace(SKIPPED, scales={STEP: FIRST_SCALE, BAD: FIRST_SCALE}),
            replace(SKIPPED, scales={STEP: FIRST_SCALE / 2, BAD: FIRST_SCALE / 2}),
        ],
    },
}

AUTOCAST, SCALER = torch.autocast, torch.amp.GradScaler
UPDATE = SCALER.update


def _uncached(*how: Any, **more: Any) -> Any:
    return AUTOCAST(*how, **{**more, "cache_enabled": False})


def _without_change(scaler: Any) -> None:
    before = scaler.get_scale()
    UPDATE(scaler)
    scaler._scale.fill_(before)


def _with_a_floor(scaler: Any) -> None:
    UPDATE(scaler)
    scaler._scale.clamp_(min=1.0)


def _scaler(name: str, function: Any) -> Any:
    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(SCALER, name, function)

    return plant


WORLDS = [
    World(
        "autocast-cache",
        "autocast keeps nothing",
        REFUTED,
        lambda patch: patch.setattr(torch, "autocast", _uncached),
    ),
    World(
        "scaler-underflow",
        "half precision has bfloat16's range",
        REFUTED,
        lambda patch: patch.setattr(
            torch, "autocast", lambda device, dtype: AUTOCAST(device, torch.bfloat16)
        ),
    ),
    World(
        "scaler-underflow",
        "the scaler does not scale",
        WITHIN_LIMITS,
        lambda patch: patch.setattr(
            torch.amp, "GradScaler", lambda *_, **__: SCALER(enabled=False)
        ),
    ),
    World("scaler-skips", "the scale stays", REFUTED, _scaler("update", _without_change)),
    World(
        "scaler-skips",
        "every step is made",
        REFUTED,
        _scaler("_maybe_opt_step", lambda scaler, optimizer, *_, **__: optimizer.step()),
    ),
    World("scaler-skips", "the scale has a floor", HOLDS, _scaler("update", _with_a_floor)),
]

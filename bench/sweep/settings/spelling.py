"""Synonyms and misspellings of values."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from modescope.bench.sweep.settings.phase_settings import PHASE_SETTINGS

_DTYPES = {
    "fp16": "float16 half f16 16",
    "bf16": "bfloat16 bfloat",
    "fp32": "float32 float single full f32 32",
    "tf32": "tensorfloat32",
}

_SYNONYMS = {
    "dtype": _DTYPES,
    "baseline.dtype": _DTYPES,
    "mode": {
        "compile": "compiled default inductor",
        "amp": "autocast",
        "eager": "none",
        "cuda-graph": "cudagraph cudagraphs cuda-graphs",
        "inference_mode": "inference",
        "max-autotune": "autotune",
    },
    "mode.grad": {"enabled": "true", "no_grad": "none false"},
    "mode.compile": {"none": "false", "default": "true compile"},
    "phase": {name: phase.synonyms for name, phase in PHASE_SETTINGS.items()},
    "device": {"cuda": "gpu gpu:0", "cpu": "host"},
    "budget": {"quick": "fast short", "standard": "default", "thorough": "long"},
}

VALUES = {
    key: {word: value for value, words in synonyms.items() for word in words.split()}
    for key, synonyms in _SYNONYMS.items()
}
"""Synonyms of a key's values."""


def nearest(key: str, value: str, allowed: Iterable[str]) -> str | None:
    """The one of `allowed` that `value` of `key` was probably meant to be."""
    options = {plain(option): option for option in allowed}
    word = plain(value)
    synonym = VALUES.get(key, {}).get(word)
    if synonym is not None and plain(synonym) in options:
        return synonym
    close = difflib.get_close_matches(word, options, n=1)
    return options[close[0]] if close else None


def plain(word: str) -> str:
    """`word` without what differs between spellings: capitals, `_` for `-`, `torch.`."""
    return word.strip().lower().removeprefix("torch.").replace("_", "-")

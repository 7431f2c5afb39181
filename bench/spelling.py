"""Values in other people's words, and misspelt ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_DTYPES = {
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "16": "fp16",
    "bfloat16": "bf16",
    "bfloat": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "single": "fp32",
    "full": "fp32",
    "f32": "fp32",
    "32": "fp32",
    "tensorfloat32": "tf32",
}

VALUES: dict[str, dict[str, str]] = {
    "dtype": _DTYPES,
    "baseline.dtype": _DTYPES,
    "mode": {
        "compiled": "compile",
        "default": "compile",
        "inductor": "compile",
        "autocast": "amp",
        "none": "eager",
        "cudagraph": "cuda-graph",
        "cudagraphs": "cuda-graph",
        "cuda-graphs": "cuda-graph",
        "inference": "inference_mode",
        "autotune": "max-autotune",
    },
    "mode.grad": {"true": "enabled", "none": "no_grad", "false": "no_grad"},
    "mode.compile": {"false": "none", "true": "default", "compile": "default"},
    "phase": {
        "training": "train",
        "infer": "inference",
        "eval": "inference",
        "test": "inference",
        "forward": "inference",
    },
    "device": {"gpu": "cuda", "gpu:0": "cuda", "host": "cpu"},
    "budget": {"fast": "quick", "short": "quick", "default": "standard", "long": "thorough"},
}
"""Other people's words for a key's values."""


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

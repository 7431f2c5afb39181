"""Saves and loads the compiler's caches for other processes (`bench.records.caches`)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from modescope.bench.model import compiler
from modescope.bench.records.caches import SAVED

BUNDLE = "cache.bin"
"""Name of the file with the bytes of `torch.compiler.save_cache_artifacts`, in the folder SAVED."""


def _bundle() -> Path:
    return Path(os.environ.get(SAVED, os.devnull)) / BUNDLE  # none where only latency is timed


def save_bundle() -> None:
    """Writes what the compiler has made in this process."""
    saved = torch.compiler.save_cache_artifacts()
    if saved is not None:  # None: it made nothing
        _bundle().write_bytes(saved[0])


def load_bundle() -> None:
    """Puts what was written, if anything was, into the compiler's caches."""
    if _bundle().exists():
        torch.compiler.load_cache_artifacts(_bundle().read_bytes())


def precompile() -> None:
    """Makes Dynamo save its work, and look for it, in this process.

    Does not import the compiler, which a user's program would import later.
    """
    os.environ["TORCH_CACHING_PRECOMPILE"] = "1"  # which it reads as it is imported
    if compiler.is_imported():
        sys.modules["torch._dynamo.config"].caching_precompile = True  # type: ignore[attr-defined]


def save_functions() -> None:
    """Writes Dynamo's work to its files in the compiler's caches."""
    torch.compiler.save_cache_artifacts()  # which does so beside

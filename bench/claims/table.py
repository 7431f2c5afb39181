"""All claims, by chapter and in the order in which they are asked; files are imported here."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from bench.claims.chapters import (
    autocast,
    autocast_order,
    autotuning,
    caching,
    compile_speed,
    copies,
    cpp,
    custom_ops,
    custom_ops_trained,
    dispatch_costs,
    dispatch_hooks,
    dispatch_paths,
    dispatch_trace,
    empty_strided,
    fragments,
    fusion,
    graph_breaks,
    graph_memory,
    inference_speed,
    inference_tensors,
    launches,
    recompiles,
    reduce_overhead,
    saved,
    scaler,
    storage,
    strided_kernels,
    strides,
    tape,
    underflow,
    versions,
    views,
)
from bench.claims.claim import Claim

# chapter -> its files, whose claims stand in the order in which they are written there
CHAPTERS: dict[str, tuple[ModuleType, ...]] = {
    "views and allocation": (
        *(views, storage, copies),
        *(strides, empty_strided, strided_kernels),
    ),
    "dispatch": (
        *(dispatch_costs, dispatch_paths, inference_speed),
        *(dispatch_hooks, dispatch_trace, cpp, launches),
    ),
    "autograd": (tape, versions, inference_tensors, saved, autocast_order),
    "autocast": (autocast, underflow, scaler),
    "compile": (
        *(compile_speed, fusion, graph_breaks, recompiles),
        *(reduce_overhead, autotuning),
    ),
    "custom ops": (custom_ops, custom_ops_trained),
    "allocator": (caching, fragments),
    "CUDA graphs": (graph_memory,),
}

DOCUMENTS = {
    "000": "PyTorch memory allocation during tensor shape manipulation (2026-03-18)",
    "001": "Is it safe to create new gpu tensor during cuda graph capturing?",
    "002": "PyTorch Internals",
    "003": "PyTorch Internals: A Deep Dive Reference",
    "004": "Why can't I use the CUDA backend for 'aten::empty_strided'? (2025-01-30)",
}
"""What a claim's source names, by its first word."""


def claims_in(chapter: str) -> list[Claim[Any]]:
    """The claims that a chapter's files define."""
    things = [thing for module in CHAPTERS[chapter] for thing in vars(module).values()]
    return [thing for thing in things if isinstance(thing, Claim)]


CLAIMS: dict[str, Claim[Any]] = {
    each.id: each for chapter in CHAPTERS for each in claims_in(chapter)
}
"""By id."""

CHAPTER_OF = {each.id: chapter for chapter in CHAPTERS for each in claims_in(chapter)}
"""By id, the chapter in which a claim stands."""


def cited(source: str) -> str:
    """`003 §6` with the title of the document."""
    document, _, where = source.partition(" ")
    return f"{DOCUMENTS[document]}, {where}" if where else DOCUMENTS[document]

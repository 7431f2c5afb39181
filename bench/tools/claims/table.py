"""All claims, by the folders of `chapters/`. Files in them are found without being named."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from modescope.bench.tools.claims import chapters
from modescope.bench.tools.claims.claim import Claim

# folder -> title
CHAPTERS = {
    "views": "views and allocation",
    "dispatch": "dispatch",
    "autograd": "autograd",
    "autocast": "autocast",
    "compile": "compile",
    "custom_ops": "custom ops",
    "allocator": "allocator",
    "cuda_graphs": "CUDA graphs",
}

DOCUMENTS = {
    "000": "PyTorch memory allocation during tensor shape manipulation (2026-03-18)",
    "001": "Is it safe to create new gpu tensor during cuda graph capturing?",
    "002": "PyTorch Internals",
    "003": "PyTorch Internals: A Deep Dive Reference",
    "004": "Why can't I use the CUDA backend for 'aten::empty_strided'? (2025-01-30)",
}
"""What a claim's source names, by its first word."""


def claims_in(chapter: str) -> list[Claim]:
    """The claims of a folder, by file and in the order in which they are written there."""
    package = import_module(f"{chapters.__name__}.{chapter}")
    files = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    things = [thing for file in files for thing in vars(import_module(file.name)).values()]
    return [thing for thing in things if isinstance(thing, Claim)]


CLAIMS: dict[str, Claim] = {each.id: each for chapter in CHAPTERS for each in claims_in(chapter)}
"""By id."""

CHAPTER_OF = {each.id: title for chapter, title in CHAPTERS.items() for each in claims_in(chapter)}
"""By id, the title of the chapter in which a claim stands."""


def cited(source: str) -> str:
    """`003 §6` with the title of the document."""
    document, _, where = source.partition(" ")
    return f"{DOCUMENTS[document]}, {where}" if where else DOCUMENTS[document]

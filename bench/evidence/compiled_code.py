"""Watches what Inductor puts into compiled code: its text, as a hash, and frozen weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from modescope.bench.records.cases import short_hash
from modescope.bench.records.columns.compiling import CompiledCode

PACKED = tuple(f"mkldnn_{kind}_weight_pack_matcher_count" for kind in ("linear", "conv", "rnn"))
"""Inductor's counters of weights that it stores in the layout of a library's kernels."""

_COMMENT = re.compile(r"^\s*# .*\n?|  # .*$", re.MULTILINE)
"""Matches a comment of Python; lines of C++ such as `#include` have no space after the `#`."""

_PATH = re.compile(r"(?<=[\"'<])/[^\"'<>\n]*(?=[\"'>])")
"""Matches an absolute path in quotes or angle brackets."""

_FILE_NAME = re.compile(r"\b[a-z][a-z2-7]{50,51}\b")
"""Matches a name that Inductor made of a hash: of a file, or of a kernel's code."""


@dataclass
class CompiledCodeWatch:
    """The columns of the code that was compiled within the block of `watch`, set at its end."""

    columns: CompiledCode = field(default_factory=CompiledCode)


def code_hash(texts: Sequence[str]) -> str | None:
    """Returns a hash of generated code that is equal for equal code; None without code.

    `texts` are those of the pieces, in order. Comments, folders and names made of hashes are left
    out, so the hash depends neither on the place of the compiler's cache nor on the process.
    """
    plain = [_FILE_NAME.sub("", _PATH.sub("", _COMMENT.sub("", text))) for text in texts]
    return short_hash(plain) if plain else None


@contextmanager
def watch() -> Iterator[CompiledCodeWatch]:
    """Sets `columns` at the end of the block to what was compiled within it.

    Enter it after other watches that replace GraphLowering.save_output_code.
    """
    from torch._dynamo.utils import counters
    from torch._inductor import config
    from torch._inductor.graph import GraphLowering

    watched, texts, frozen = CompiledCodeWatch(), list[str](), list[int]()
    packed_before = sum(counters["inductor"][name] for name in PACKED)
    saved = GraphLowering.save_output_code

    def save(code: str) -> None:
        texts.append(code)
        if saved is not None:
            saved(code)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(GraphLowering, "save_output_code", save))
        if config.freezing:
            stack.enter_context(_count_frozen(frozen))
        yield watched
    packed = sum(counters["inductor"][name] for name in PACKED) - packed_before
    watched.columns = CompiledCode(code_hash=code_hash(texts))
    if config.freezing:
        watched.columns = CompiledCode(
            code_hash=code_hash(texts),
            frozen_weights=sum(frozen),
            packed_weights=packed,
        )


@contextmanager
def _count_frozen(counts: list[int]) -> Iterator[None]:
    """Adds to `counts`, for each graph, how many of its arguments became constants."""
    from torch._inductor import freezing

    freeze = freezing.freeze

    def counted(dynamo_gm: Any, aot_autograd_gm: Any, example_inputs: Any) -> Any:
        arguments = len(aot_autograd_gm.graph.find_nodes(op="placeholder"))
        frozen, kept = freeze(dynamo_gm, aot_autograd_gm, example_inputs)
        counts.append(arguments - len(kept))
        return frozen, kept

    with mock.patch.object(freezing, "freeze", counted):
        yield

"""Watches the first call of a mode: what torch compiles in it, warns of, and needs of memory."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import torch

from modescope.bench.devices.allocators import Allocator
from modescope.bench.evidence import compiler_counts
from modescope.bench.evidence.compiler_counts import Compiled
from modescope.bench.evidence.mode_effect import GraphBreaks
from modescope.bench.model import compiler
from modescope.bench.records.columns.compiling import Compilations, CompiledCode, GeneratedCode
from modescope.bench.records.columns.passes import Setup
from modescope.bench.records.errors import shorten

if TYPE_CHECKING:
    from modescope.bench.evidence.graph_break_watch import GraphBreakWatch

WARNING_MAX_LENGTH = 200
MOST_WARNINGS = 5

FROM_CPP = "(Triggered internally at"
"""A part of each warning of torch's C++ code. The file that Python reports for such a warning is
that of the Python code that called torch."""

_TORCH = Path(torch.__file__).parent


@dataclass(frozen=True)
class CallEvidence:
    """What happened in the block of `watch`; None and empty groups of columns are unknown."""

    compiled: Compiled  # the compiler's counts
    warnings: tuple[str, ...]  # torch's
    symbolic_sizes: int | None  # sizes that are arguments of the generated code
    breaks: GraphBreaks | None
    limit_hits: int  # times that torch reached its limit of compilations
    failure: str | None  # a function that could not be compiled, and the first error
    code: GeneratedCode
    compiled_code: CompiledCode
    compilations: Compilations
    setup: Setup
    optimizer_graphs: int = 0  # those of `compiled` that are of an optimizer's step


class Watch:
    """A watch that is under way."""

    def __init__(self, breaks: GraphBreakWatch | None) -> None:
        self._breaks = breaks
        self._evidence: CallEvidence | None = None

    @property
    def limit_hits(self) -> int:
        """How often torch has reached its limit of compilations until now."""
        return self._breaks.limit_hits if self._breaks else 0

    @property
    def evidence(self) -> CallEvidence:
        """What was found; only after the block."""
        assert self._evidence is not None
        return self._evidence

    def close(self, evidence: CallEvidence) -> None:
        """Ends the watch: sets `evidence`."""
        self._evidence = evidence


@contextmanager
def watch(compiles: bool, code: bool = False, memory: Allocator | None = None) -> Iterator[Watch]:
    """Watches what torch does within the block; its `evidence` can be read after the block.

    `compiles`: whether the block may compile; if not, the compiler is watched only if this process
    has imported it. `code`: whether generated code is read. `memory`: the allocator whose peak is
    read; None: none is. The watches hardly take time: they keep code as it is written, add up bytes
    per kernel and read a peak at the end.
    """
    before = compiler_counts.read_compiled()
    generated = compiled = compilations = breaks = peak = None
    with ExitStack() as stack:
        warned = stack.enter_context(watch_warnings())
        if compiles or compiler.is_imported():
            from modescope.bench.evidence import compilation, compiled_code, graph_break_watch

            compilations = stack.enter_context(compilation.watch_compilations())
            generated = stack.enter_context(compilation.watch_code()) if code else None
            compiled = stack.enter_context(compiled_code.watch())
            breaks = stack.enter_context(graph_break_watch.watch())
        if memory:
            peak = stack.enter_context(memory.watch_setup())
        watching = Watch(breaks)
        yield watching
    watching.close(
        CallEvidence(
            compiled=compiler_counts.read_compiled().since(before),
            warnings=tuple(warned),
            symbolic_sizes=generated.symbolic_sizes if generated else None,
            breaks=breaks.breaks if breaks else None,
            limit_hits=watching.limit_hits,
            failure=breaks.failure if breaks else None,
            code=generated.columns if generated else GeneratedCode(),
            compiled_code=compiled.columns if compiled else CompiledCode(),
            compilations=compilations.columns if compilations else Compilations(),
            setup=(peak and peak.result) or Setup(),
            optimizer_graphs=compilations.of_optimizer if compilations else 0,
        )
    )


@contextmanager
def watch_warnings() -> Iterator[list[str]]:
    """Collects torch's warnings in the block, each text once and shortened, and still shows them.

    A warning counts even if it was shown before the block, except warnings that C++ code gives only
    once per process.
    """
    found: list[str] = []

    def note(text: str) -> None:
        short = shorten(text.partition(FROM_CPP)[0], WARNING_MAX_LENGTH)
        if short not in found and len(found) < MOST_WARNINGS:
            found.append(short)

    with warnings.catch_warnings(), _watch_log(note):  # the former forgets what has been shown
        show = warnings.showwarning

        def shown(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if FROM_CPP in str(message) or _TORCH in Path(filename).parents:
                note(str(message))
            show(message, category, filename, lineno, file, line)

        warnings.showwarning = shown
        yield found


@contextmanager
def _watch_log(note: Callable[[str], None]) -> Iterator[None]:
    """Calls `note` with each message that torch logs as a warning or worse.

    Torch's loggers do not propagate records to others, so records are read where they are made.
    """
    make = logging.getLogRecordFactory()

    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        if record.levelno >= logging.WARNING and record.name.partition(".")[0] == "torch":
            note(record.getMessage())
        return record

    logging.setLogRecordFactory(made)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)

"""Watches a program between two moments, and returns what was seen as a record.

Watches may be open within each other. The hooks are shared (`bench.watching.hooks`), and each watch
takes what was added since it began. The compiler, torch and numpy are imported only once the
program has imported them, so that settings which it makes before still count.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from modescope.bench.records.errors import one_line
from modescope.bench.records.watched import Watched
from modescope.bench.watching import torch_names
from modescope.bench.watching.imports import OnImport
from modescope.bench.watching.ledger import COMPILING, Ledger, Times
from modescope.bench.watching.live import Live
from modescope.bench.watching.samples import Samples

if TYPE_CHECKING:
    from modescope.bench.evidence.graph_break_watch import GraphBreakWatch
    from modescope.bench.watching.before import Before
    from modescope.bench.watching.hooks import Frame, Hooks

STOPS = {"recompile": "error_on_recompile"}
"""What may end a program (`stop_on`), with torch's setting for it."""


class _Shared:
    """What all watches that are open share: the clocks, and hooks once the compiler is there."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.hooks: Hooks | None = None
        self.watches: list[Watch] = []
        self._import = OnImport(torch_names.COMPILER, self._import_compiler)

    def open(self, watch: Watch) -> None:
        """Adds a watch; sets hooks with the first, or when the program imports the compiler."""
        self.watches.append(watch)
        if self.hooks is not None:
            watch.begin(self.hooks)
        elif torch_names.is_imported():
            self.set_hooks()
        else:
            self._import.begin()

    def set_hooks(self) -> None:
        """Sets the hooks, for all watches that are open."""
        from modescope.bench.watching.hooks import Hooks

        self.hooks = Hooks(self.ledger)
        self.hooks.set()
        for watch in self.watches:
            watch.begin(self.hooks)

    def _import_compiler(self, load: Callable[[], None]) -> None:
        ledger = self.ledger
        ledger.shift(COMPILING, 1)
        try:
            load()
            if self.watches:
                self.set_hooks()
        finally:
            ledger.shift(COMPILING, -1)

    def forget(self) -> None:
        """Says nothing more, in a process that was forked from that which is watched."""
        for watch in self.watches:
            watch.is_forked = True
            watch.forget_samples()

    def close(self, watch: Watch) -> None:
        """Takes a watch away, and with the last one the hooks."""
        self.watches.remove(watch)
        if self.watches:
            return
        self._import.end()
        if self.hooks is not None:
            self.hooks.remove()
            self.hooks = None
        self.ledger = Ledger()  # a signal may have kept a thread from noting its end in the old one


class Watch:
    """One watch. `start` and `stop` are called once each, in the same thread."""

    def __init__(self, program: str, say: Callable[[str], None], stop_on: str | None) -> None:
        self._program, self._say, self._stop_on = program, say, stop_on
        self._hooks: Hooks | None = None
        self._breaks: GraphBreakWatch | None = None
        self._before: Before | None = None
        self.is_forked = False  # this process was forked within the watch, by what it watches
        self.subjects: list[Callable[[], Any]] = []  # the module or function of each ask

    def start(self) -> None:
        """Begins to watch."""
        self._started_at = datetime.now().astimezone().isoformat(timespec="seconds")
        self._samples = Samples(_SHARED.ledger)
        self._start_us = time.time_ns() / 1000
        with _LOCK:
            _SHARED.open(self)
        self._live = Live(self._compiling, self._samples, self._say)
        self._live.start()
        self._times = _SHARED.ledger.read()

    def begin(self, hooks: Hooks) -> None:
        """Begins to count; the hooks have been set."""
        from modescope.bench.evidence.graph_break_watch import GraphBreakWatch
        from modescope.bench.watching.before import Before

        self._breaks = GraphBreakWatch()
        hooks.breaks.append(self._breaks)
        if self._stop_on:
            hooks.stop_on(STOPS[self._stop_on], 1)
        self._hooks, self._before = hooks, Before(hooks, self._start_us)
        hooks.before_compiling.append(self._end_sample)

    def stop(self, error: BaseException | None = None) -> Watched:
        """Ends the watch; `error` is what ended the program, if anything did."""
        times = _SHARED.ledger.read().since(self._times)
        self._samples.close()
        if not self.is_forked:
            self._live.stop()
        if self._hooks is not None:
            assert self._breaks is not None
            self._hooks.before_compiling.remove(self._end_sample)
            self._hooks.breaks.remove(self._breaks)
            if self._stop_on:
                self._hooks.stop_on(STOPS[self._stop_on], -1)
        try:
            return self._record(times, error)
        finally:
            with _LOCK:
                _SHARED.close(self)

    def _compiling(self) -> Frame | None:
        """Returns the outermost compilation that is under way, if any."""
        frames = self._hooks.frames[-8:] if self._hooks else []
        return next((frame for frame in frames if frame.end_s is None), None)

    def forget_samples(self) -> None:
        """Ends samples in a forked process."""
        self._samples.forget()

    def _end_sample(self) -> None:
        self._samples.end()

    def _record(self, times: Times, error: BaseException | None) -> Watched:
        from modescope.bench.watching.samples import eager_s

        if self._breaks is not None and self._hooks is not None and self._hooks.knows_breaks:
            self._breaks.close()
        taken = self._samples.taken
        eager = eager_s(taken, times.other_s)
        watched = Watched(
            program=self._program,
            started_at=self._started_at,
            python_version=platform.python_version(),
            wall_s=times.compiling_s + times.compiled_s + times.other_s,
            compiling_s=times.compiling_s,
            compiled_s=times.compiled_s,
            eager_s=eager.value if eager else None,
            eager_low_s=eager.low if eager else None,
            eager_high_s=eager.high if eager else None,
            samples=len(taken),
            sampled_s=sum(sample.passed.other_s for sample in taken),
            waits=tuple(self._live.waits),
            error=error_text(error),
        )
        if self._hooks is None:  # the program has not imported the compiler
            return watched
        assert self._before is not None
        self.subjects = self._before.subjects(self._hooks)
        return self._before.complete(watched, self._hooks, self._breaks)


def error_text(error: BaseException | None) -> str | None:
    """Returns the error that ended a program, in a line; None if it ended as it should."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return None
    return one_line(error)


_SHARED = _Shared()
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED.forget)

"""Watches a program between two moments, and returns what was seen as a record.

Watches may be open within each other. The hooks are shared (`bench.watch.hooks`), and each watch
takes what was added since it began. The compiler, torch and numpy are imported only once the
program has imported them, so that settings which it makes before still count.
"""

from __future__ import annotations

import platform
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from modescope.bench.records.errors import one_line
from modescope.bench.records.watched import Watched
from modescope.bench.watch import torch_names
from modescope.bench.watch.ledger import COMPILING, Ledger, Times
from modescope.bench.watch.live import Live
from modescope.bench.watch.samples import Samples

if TYPE_CHECKING:
    from modescope.bench.evidence.graph_break_watch import GraphBreakWatch
    from modescope.bench.watch.before import Before
    from modescope.bench.watch.hooks import Frame, Hooks

STOPS = {"recompile": "error_on_recompile"}
"""What may end a program (`stop_on`), with torch's setting for it."""


class _Shared:
    """What all watches that are open share: the clocks, and hooks once the compiler is there."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.hooks: Hooks | None = None
        self.watches: list[Watch] = []
        self._finder = _Finder(self)

    def open(self, watch: Watch) -> None:
        """Adds a watch; sets hooks with the first, or when the program imports the compiler."""
        self.watches.append(watch)
        if self.hooks is not None:
            watch.begin(self.hooks)
        elif torch_names.is_imported():
            self.set_hooks()
        elif self._finder not in sys.meta_path:
            sys.meta_path.insert(0, self._finder)

    def set_hooks(self) -> None:
        """Sets the hooks, for all watches that are open."""
        from modescope.bench.watch.hooks import Hooks

        self.hooks = Hooks(self.ledger)
        self.hooks.set()
        for watch in self.watches:
            watch.begin(self.hooks)

    def close(self, watch: Watch) -> None:
        """Takes a watch away, and with the last one the hooks."""
        self.watches.remove(watch)
        if self.watches:
            return
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        if self.hooks is not None:
            self.hooks.remove()
            self.hooks = None


class _Finder(MetaPathFinder):
    """Waits for the import of the compiler, and then sets the hooks."""

    def __init__(self, shared: _Shared) -> None:
        self._shared = shared

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Finds the compiler as Python does, with a loader that sets the hooks afterwards."""
        if name != torch_names.COMPILER:
            return None
        sys.meta_path.remove(self)
        spec, shared = find_spec(name), self._shared
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_hook(module: ModuleType) -> None:
            shared.ledger.shift(COMPILING, 1)
            try:
                load(module)
                if shared.watches:
                    shared.set_hooks()
            finally:
                shared.ledger.shift(COMPILING, -1)

        spec.loader.exec_module = load_and_hook  # type: ignore[method-assign]
        return spec


class Watch:
    """One watch. `start` and `stop` are called once each, in the same thread."""

    def __init__(self, program: str, say: Callable[[str], None], stop_on: str | None) -> None:
        self._program, self._say, self._stop_on = program, say, stop_on
        self._hooks: Hooks | None = None
        self._breaks: GraphBreakWatch | None = None
        self._before: Before | None = None
        self._stack = ExitStack()
        self.subjects: list[Callable[[], Any]] = []  # the module or function of each ask

    def start(self) -> None:
        """Begins to watch."""
        self._started_at = datetime.now().astimezone().isoformat(timespec="seconds")
        self._samples = Samples(_SHARED.ledger)
        self._start_us = time.time_ns() / 1000
        with _LOCK:
            _SHARED.open(self)
        self._live = Live(self, self._samples, self._say)
        self._live.start()
        self._times = _SHARED.ledger.read()

    def begin(self, hooks: Hooks) -> None:
        """Begins to count; the hooks have been set."""
        from torch._dynamo import config

        from modescope.bench.evidence import graph_break_watch
        from modescope.bench.watch.before import Before

        self._breaks = self._stack.enter_context(graph_break_watch.watch())
        if self._stop_on:
            self._stack.enter_context(config.patch({STOPS[self._stop_on]: True}))
        self._hooks, self._before = hooks, Before(hooks, self._start_us)
        hooks.before_compiling.append(self._end_sample)

    def stop(self, error: BaseException | None = None) -> Watched:
        """Ends the watch; `error` is what ended the program, if anything did."""
        times = _SHARED.ledger.read().since(self._times)
        self._samples.close()
        self._live.stop()
        if self._hooks is not None:
            self._hooks.before_compiling.remove(self._end_sample)
        try:
            return self._record(times, error)
        finally:
            self._stack.close()
            with _LOCK:
                _SHARED.close(self)

    def compiling(self) -> Frame | None:
        """Returns the outermost compilation that is under way, if any."""
        frames = self._hooks.frames[-8:] if self._hooks else []
        return next((frame for frame in frames if frame.end_s is None), None)

    def _end_sample(self) -> None:
        self._samples.end()

    def _record(self, times: Times, error: BaseException | None) -> Watched:
        from modescope.bench.watch.samples import eager_s

        if self._breaks is not None:
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

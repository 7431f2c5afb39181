"""Hooks in torch's compiler, shared by all watches that are open in this process.

Counts go on over the watches; each takes the difference.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import CodeType
from typing import Any
from unittest import mock

from modescope.bench.evidence import graph_break_watch
from modescope.bench.evidence.graph_break_watch import LIMIT_REACHED, GraphBreakWatch
from modescope.bench.watching import asked, pieces, torch_names
from modescope.bench.watching.asked import Asked, OwnCalls
from modescope.bench.watching.imports import OnImport
from modescope.bench.watching.ledger import COMPILING, Ledger
from modescope.bench.watching.pieces import OfThread, Piece

MANY = 1_000_000  # records of compilations that torch keeps while it is watched


@dataclass
class Frame:
    """One function that Dynamo compiled, or tried to."""

    code: CodeType
    named: tuple[str, str]  # its name, and its place such as `net.py:12`
    compile_id: str
    thread: str
    start_s: float  # of time.perf_counter
    start_us: float  # since the epoch, as torch's records have it
    end_s: float | None = None  # None: it is under way
    failure: str | None = None


class Hooks:
    """What the hooks have counted since the first of the open watches began."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.own = OfThread()
        self.frames: list[Frame] = []
        self.pieces: list[Piece] = []
        self.asked: list[Asked] = []
        self.recorded: Counter[str] = Counter()  # CUDA graphs, by the id of the compilation
        self.bypasses: list[str] = []  # why graphs could not be looked up in the cache
        self.breaks: list[GraphBreakWatch] = []  # of the watches that are open
        self.knows_breaks = False  # whether torch tells them
        self.before_compiling: list[Callable[[], None]] = []
        self._stops: Counter[str] = Counter()  # open watches, by the setting that they set
        self._started = 0  # compilations under way of which torch tells the end
        self._functions: dict[tuple[CodeType | None, str], Asked] = {}  # by code and place
        self._own_setting = False  # what the program had set
        self._own_calls = OwnCalls()
        self._backward = Piece((pieces.BACKWARD, "–"), None, "")
        self._undo = ExitStack()

    def set(self) -> None:
        """Sets the hooks; the compiler must be imported."""
        self._patch("compile_frame", self._compile_frame)
        self._patch("install_global", self._install_global)
        self._patch("ask", self._ask)
        self.knows_breaks = self._undo.enter_context(graph_break_watch.hooked(self.breaks))
        self._patch("starts", self._start)
        self._patch("ends", self._end)
        self._raise_limit()
        self._find_earlier()
        self._once_imported(torch_names.INDUCTOR_GRAPH, self._count_backward)
        self._once_imported(torch_names.CACHE_BYPASS, self._note_bypasses)

    def stop_on(self, setting: str, step: int) -> None:
        """Notes a watch that sets a flag of Dynamo's settings (`step` 1), or that it ends (-1).

        Watches may end in any order, and the last one puts back what the program had set.
        """
        config = sys.modules["torch._dynamo.config"]
        if not self._stops[setting]:
            self._own_setting = getattr(config, setting)
        self._stops[setting] += step
        setattr(config, setting, bool(self._stops[setting]) or self._own_setting)

    def remove(self) -> None:
        """Takes all hooks away."""
        self._own_calls.stop()
        for piece in self.pieces:
            piece.put_back()
        for noted in self.asked:
            noted.put_back()
        self._undo.close()
        self.ledger.shift(COMPILING, -self._started)  # their ends are not seen any more

    def _patch(self, name: str, wrap: Callable[[Any], Any]) -> None:
        place = torch_names.PLACES[name]
        if original := torch_names.find(place):
            self._undo.enter_context(mock.patch.object(*torch_names.holder(place), wrap(original)))

    def _compile_frame(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_frame(code: CodeType, *args: Any, **options: Any) -> Any:
            for act in self.before_compiling:
                act()
            now_us, thread = time.time_ns() / 1000, threading.current_thread().name
            calls = self.own.state.calls
            called = calls[-1][0] if calls else None
            named = asked.named(code, called)
            compile_id = str(options.get("compile_id"))
            frame = Frame(code, named, compile_id, thread, time.perf_counter(), now_us)
            values = args[1] if len(args) > 1 else options.get("locals", {})
            outer, self.own.state.frame = self.own.state.frame, (frame, values)
            self.frames.append(frame)
            self.ledger.shift(COMPILING, 1)
            try:
                return original(code, *args, **options)
            except Exception as error:
                frame.failure = f"{type(error).__name__}: {error}"
                if LIMIT_REACHED in str(error) and called is not None:
                    called.limit_hits += 1
                raise
            finally:
                frame.end_s = self.ledger.shift(COMPILING, -1)
                self.own.state.frame = outer

        return compile_frame

    def _install_global(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def install(graph: Any, name: str, value: Any) -> Any:
            if not name.startswith(torch_names.COMPILED) or self.own.state.frame is None:
                return original(graph, name, value)
            frame, values = self.own.state.frame
            self._note_parts(graph)
            arguments, tensors = pieces.describe(frame.code, values)
            scope = graph.global_scope
            piece = Piece(frame.named, scope, name, arguments=arguments, tensors=tensors)
            self.pieces.append(piece)
            return original(graph, name, pieces.count(value, piece, self.ledger, self.own))

        return install

    def _note_parts(self, graph: Any) -> None:
        """Notes which functions that were asked for are in a graph with what calls them."""
        traced = getattr(getattr(graph, "tracing_context", None), "traced_code", ())
        codes = set(map(id, traced))
        for noted in self.asked:
            noted.is_part = noted.is_part or id(noted.target) in codes

    def _ask(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(context: Any, function: Any) -> Any:
            if self.own.state.asks:  # for a module, torch asks once more for its call
                return original(context, function)
            self.own.state.asks = True
            try:
                result = original(context, function)
            finally:
                self.own.state.asks = False
            noted = asked.note(function, asked.caller(sys._getframe(1)), self.own)
            if not noted.is_module:  # which a program may ask for in each step
                noted = self._functions.setdefault((noted.target, noted.place), noted)
            noted.hook(context)
            if noted not in self.asked:
                self.asked.append(noted)
                self._own_calls.look_for(noted)
            return result

        return ask

    def _start(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Counts what is compiled or recorded by a call of compiled code.

        torch has callbacks for that, which its reset() forgets: what calls them is patched instead.
        """

        def start(handler: Any, *given: Any) -> Any:
            self.ledger.shift(COMPILING, 1)
            self._started += 1
            for details in given:
                if details.callback_trigger.name == torch_names.RECORDING:
                    self.recorded[details.compile_id] += 1
            return original(handler, *given)

        return start

    def _end(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def end(handler: Any, *given: Any) -> Any:
            if self._started:  # else it began before the watch
                self._started -= 1
                self.ledger.shift(COMPILING, -1)
            return original(handler, *given)

        return end

    def _raise_limit(self) -> None:
        """Lets torch keep its records of all compilations instead of the last 64."""
        names = ("set_metrics_limit", "metrics_kept")
        set_limit, kept = (torch_names.find(torch_names.PLACES[name]) for name in names)
        if set_limit and kept is not None:
            set_limit(MANY)
            self._undo.callback(set_limit, kept.maxlen)

    def _find_earlier(self) -> None:
        """Counts calls of what was compiled before, too."""
        manager = torch_names.find(torch_names.PLACES["cleanups"])
        for cleanups in list(manager.values.values()) if manager is not None else ():
            for scope, name in [(cleanup.scope, cleanup.name) for cleanup in cleanups]:
                if name.startswith(torch_names.COMPILED) and callable(scope.get(name)):
                    piece = Piece((pieces.EARLIER, str(scope.get("__name__", "–"))), scope, name)
                    self.pieces.append(piece)
                    scope[name] = pieces.count(scope[name], piece, self.ledger, self.own)
        optimized = torch_names.find(torch_names.PLACES["optimized_module"])
        for module in gc.get_objects() if optimized else ():
            if type(module) is optimized and hasattr(module, "dynamo_ctx"):
                place = "a place before the watch"
                noted = asked.note(module._orig_mod, place, self.own)
                noted.hook(module.dynamo_ctx)
                self.asked.append(noted)

    def _once_imported(self, place: str, act: Callable[[], None]) -> None:
        """Acts once the module of `place` is imported, now or by the program."""
        module = place.partition(":")[0]
        if module in sys.modules:
            act()
            return

        def load_and_act(load: Callable[[], None]) -> None:
            load()
            act()

        waiting = OnImport(module, load_and_act)
        waiting.begin()
        self._undo.callback(waiting.end)

    def _count_backward(self) -> None:
        """Counts backward passes, for which Dynamo has no name."""
        self.pieces.append(self._backward)
        owner, name = torch_names.holder(torch_names.INDUCTOR_GRAPH)
        run = pieces.count_backward(getattr(owner, name), self._backward, self.ledger, self.own)
        self._undo.enter_context(mock.patch.object(owner, name, run))

    def _note_bypasses(self) -> None:
        owner, name = torch_names.holder(torch_names.CACHE_BYPASS)
        bypass = getattr(owner, name, None)
        if bypass is None:
            return
        make = bypass.__init__

        def made(error: Exception, *reasons: Any) -> None:
            self.bypasses.extend(map(str, reasons))
            make(error, *reasons)

        self._undo.enter_context(mock.patch.object(bypass, "__init__", made))

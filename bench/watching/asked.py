"""What a program asked torch to compile, and whether compiled code ran when it was called."""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from modescope.bench.records.paths import is_of_python
from modescope.bench.watching import torch_names
from modescope.bench.watching.pieces import OfThread

MOST_EVENTS = 50_000
"""Calls and returns, about 10 ms of them, among which those of a function are looked for
that is not called through what torch.compile returned."""

_PART = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")

_OURS = str(Path(__file__).resolve().parents[2] / "bench") + "/"
_TORCH = str(Path(torch.__file__).parent) + "/"


@dataclass(eq=False, slots=True, weakref_slot=True)
class Asked:
    """Something that the program asked torch to compile."""

    function: str
    place: str
    is_module: bool
    is_method: bool
    target: CodeType | None  # the code to be compiled
    subject: Callable[[], Any]  # the module or function; None once it is gone
    own: OfThread
    contexts: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    """torch's, whose hooks `enter` is one of."""
    calls: int = 0
    compiled_calls: int = 0
    first_eager_call: int = 0  # the first without compiled code after torch gave up; 0: none
    limit_hits: int = 0
    is_part: bool = False
    ran_itself_at: str | None = None

    def enter(self) -> Callable[[], None]:
        """Is called by torch before each call; what it returns, after the call."""
        self.calls += 1
        state = self.own.state
        state.calls.append((self, self.calls, state.pieces))
        return self.leave

    def leave(self) -> None:
        """Is called by torch after each call."""
        state = self.own.state
        _, number, before = state.calls.pop()
        if state.pieces != before:
            self.compiled_calls += 1
        elif self.limit_hits and not self.first_eager_call:
            self.first_eager_call = number

    def hook(self, context: Any) -> None:
        """Adds `enter` to the hooks of what torch.compile made."""
        if (hooks := getattr(context, "enter_exit_hooks", None)) is not None:
            hooks.append(self.enter)
            self.contexts.add(context)

    def put_back(self) -> None:
        """Takes `enter` out of torch's hooks."""
        for context in self.contexts:
            hooks = context.enter_exit_hooks
            hooks[:] = [hook for hook in hooks if getattr(hook, "__self__", None) is not self]


def named(code: CodeType, asked: Asked | None = None) -> tuple[str, str]:
    """Returns the name of a function, and its place such as `net.py:12`.

    A function of torch's that runs what was `asked` for has the name of that.
    """
    if asked is not None and code.co_filename.startswith(_TORCH):
        return asked.function, asked.place
    place = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    if part := _PART.search(code.co_qualname):  # what follows a graph break
        return f"{part[1]} from line {part[2]}", place
    function = code.co_qualname
    if asked is not None and "<locals>" in function and asked.function not in function:
        return f"{function} of {asked.function}", place  # such as the wrapper of a decorator
    return function, place


def note(function: Any, place: str, own: OfThread) -> Asked:
    """Describes that the program asked at `place` to compile `function`."""
    module = getattr(function, "__self__", function)
    is_module = isinstance(module, torch.nn.Module)
    code = module.forward if is_module else function
    return Asked(
        function=type(module).__qualname__ if is_module else _name(function),
        place=place,
        is_module=is_module,
        is_method=is_module and module is not function,
        target=getattr(getattr(code, "__func__", code), "__code__", None),
        subject=_weak(module if is_module else function),
        own=own,
    )


def caller(frame: FrameType | None) -> str:
    """Returns the innermost line outside torch and modescope, such as `net.py:12`."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith((_OURS, _TORCH, "<")) or is_of_python(file)):
            return f"{Path(file).name}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown place"


class OwnCalls:
    """Looks for calls of functions that do not go through what torch.compile returned.

    It uses Python's profile hook in the thread that asks, for MOST_EVENTS events and only if the
    program has no such hook.
    """

    def __init__(self) -> None:
        self._wanted: dict[CodeType, list[Asked]] = {}
        self._events = 0

    def look_for(self, asked: Asked) -> None:
        """Looks for calls of `asked` from now on."""
        if asked.target is None or sys.getprofile() not in (None, self._see):
            return
        self._wanted.setdefault(asked.target, []).append(asked)
        self._events = 0
        torch_names.skip(OwnCalls._see, torch_names.set_eval_frame)
        sys.setprofile(self._see)

    def stop(self) -> None:
        """Stops looking."""
        if sys.getprofile() == self._see:
            sys.setprofile(None)
        self._wanted.clear()

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        self._events += 1
        found = self._wanted.get(frame.f_code) if event == "call" else None
        if found is not None:
            before = torch_names.set_eval_frame(None)
            for asked in found:
                if not asked.own.state.calls:
                    asked.ran_itself_at = caller(frame.f_back)
            self._wanted.pop(frame.f_code, None)  # another thread may have seen it, too
            torch_names.set_eval_frame(before)
        if self._events > MOST_EVENTS or not self._wanted:
            sys.setprofile(None)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _weak(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: None

"""Counts the calls of compiled code, their time, and the sizes of what the function got.

A counting wrapper takes the place of each piece of compiled code. It runs where Dynamo looks at
every Python function that is called, so it calls none that Dynamo has not been told to skip.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import CO_VARARGS, CO_VARKEYWORDS
from operator import attrgetter, itemgetter
from types import CodeType
from typing import Any

import torch

from modescope.bench.records.watched import Arguments
from modescope.bench.watching import torch_names
from modescope.bench.watching.ledger import COMPILED, COMPILING, OTHER, Ledger

EARLIER = "compiled before the watch"
BACKWARD = "backward passes"

MOST_SIZES = 10_000  # different ones of a piece; calls of further ones are counted without sizes

PLAIN = (bool, int, float, str, type(None))

OF_TORCH = (torch.Tensor, torch.nn.Parameter)
"""Whose tensors are described: a look at one of a subclass may run code of the program's."""

_SHAPE = attrgetter("shape")


@dataclass(slots=True)
class State:
    """What the hooks know of one thread."""

    pieces: int = 0  # calls of compiled code
    depth: int = 0  # those under way
    asks: bool = False  # whether torch.compile is under way
    calls: list[tuple[Any, int, int]] = field(default_factory=list)
    """Calls under way of what torch.compile made: what was asked, its calls, `pieces` before."""
    frame: Any = None  # the compilation that is under way


class OfThread(threading.local):
    """The state of the thread that looks."""

    def __init__(self) -> None:
        self.state = State()


@dataclass(slots=True)
class Piece:
    """One piece of compiled code. It holds no code, which the program may drop."""

    named: tuple[str, str]  # the function's name and place
    scope: dict[str, Any] | None  # where Dynamo has put it, by `name`
    name: str
    calls: int = 0
    seconds: float = 0.0
    arguments: Arguments = field(default_factory=Arguments)
    tensors: Mapping[int, str] | None = None  # the function's, by id, until the first call
    names: tuple[str, ...] = ()  # of the tensors among the arguments
    size: tuple[torch.Size, ...] | None = None  # of those, if the code is for one size
    sizes: dict[tuple[torch.Size, ...], int] = field(default_factory=dict)  # else calls by size

    def calls_by_size(self) -> dict[tuple[torch.Size, ...], int]:
        """Returns the calls at each size of the function's tensors."""
        return dict(self.sizes) if self.size is None else {self.size: self.calls}

    def put_back(self) -> None:
        """Puts the compiled code in the place of its wrapper."""
        scope: dict[str, Any] = {} if self.scope is None else self.scope
        wrapper = scope.get(self.name)
        if wrapper is not None and getattr(wrapper, "piece", None) is self:
            scope[self.name] = wrapper.__wrapped__


def count(function: Callable[..., Any], piece: Piece, ledger: Ledger, own: OfThread) -> Any:
    """Returns a wrapper of the compiled code `function` that counts its calls in `piece`.

    It does what `Ledger.shift` does without calling it: each Python function that is called there
    takes a microsecond more, as Dynamo looks at it.
    """
    sizes, clock, open_, seconds, since = (
        piece.sizes, ledger.clock, ledger.open, ledger.seconds, ledger.since,
    )  # fmt: skip
    pick: Callable[[Any], Any] | None = None

    def run(*args: Any) -> Any:
        nonlocal pick
        if piece.tensors is not None:
            pick = _match(piece, args)
        if pick is not None:
            key = tuple(map(_SHAPE, pick(args)))
            known = sizes.get(key, 0)
            if known or len(sizes) < MOST_SIZES:
                sizes[key] = known + 1
        state = own.state
        state.pieces += 1
        state.depth += 1
        start = clock()
        if start < since[0]:
            start = since[0]
        seconds[COMPILING if open_[0] else COMPILED if open_[1] else OTHER] += start - since[0]
        since[0] = start
        open_[1] += 1
        try:
            return function(*args)
        finally:
            now = clock()
            if now < since[0]:
                now = since[0]
            seconds[COMPILING if open_[0] else COMPILED] += now - since[0]
            since[0] = now
            open_[1] -= 1
            piece.seconds += now - start
            piece.calls += 1
            state.depth -= 1

    run.piece = piece  # type: ignore[attr-defined]
    run.__wrapped__ = function  # type: ignore[attr-defined]
    torch_names.skip(
        run, _match, Ledger.shift, OfThread.__init__, State.__init__, torch_names.set_eval_frame
    )
    return run


def count_backward(
    function: Callable[..., Any], piece: Piece, ledger: Ledger, own: OfThread
) -> Callable[..., Any]:
    """As `count`, of a method that runs graphs of any kind: counts what is in no other piece."""
    shift = ledger.shift

    def run(*args: Any) -> Any:
        state = own.state
        if state.depth:
            return function(*args)
        state.pieces += 1
        start = shift(COMPILED, 1)
        try:
            return function(*args)
        finally:
            piece.seconds += shift(COMPILED, -1) - start
            piece.calls += 1

    torch_names.skip(run)
    return run


def _match(piece: Piece, args: tuple[Any, ...]) -> Callable[[Any], Any] | None:
    """Finds the function's tensors among the arguments of its compiled code, at its first call.

    Returns what picks them out of those of each call; None if code is for one size: sizes that
    vary are arguments, too.
    """
    before = torch_names.set_eval_frame(None)  # from here on, Dynamo does not look
    try:
        known = piece.tensors or {}
        found = {number: known[id(arg)] for number, arg in enumerate(args) if id(arg) in known}
        piece.tensors, piece.names = None, tuple(found.values())
        if not any(type(arg) is int for arg in args):
            piece.size = tuple(args[place].shape for place in found)
            return None
        if len(found) == 1:
            (place,) = found
            return itemgetter(slice(place, place + 1))
        return itemgetter(*found) if found else None
    finally:
        torch_names.set_eval_frame(before)


def describe(code: CodeType, values: Mapping[str, Any]) -> tuple[Arguments, dict[int, str]]:
    """Describes the arguments of a function that is being compiled; returns its tensors' ids, too.

    `values` are the function's local variables, of which there are no others yet.
    """
    count = code.co_argcount + code.co_kwonlyargcount
    given = {name: values[name] for name in code.co_varnames[:count] if name in values}
    further = list(code.co_varnames[count:])
    if code.co_flags & CO_VARARGS:
        rest = values.get(further.pop(0), ())
        given |= {f"[{place}]": value for place, value in enumerate(rest)}
    if code.co_flags & CO_VARKEYWORDS:
        given |= values.get(further.pop(0), {})
    tensors = {name: value for name, value in given.items() if type(value) in OF_TORCH}
    plain = {name: value for name, value in given.items() if isinstance(value, PLAIN)}
    others = [
        name
        for name, value in given.items()
        if name not in tensors
        and name not in plain
        and not isinstance(value, torch.nn.Module)  # the module itself
    ]
    seen = {name: (_dtype(value), *_range(value)) for name, value in tensors.items()}
    ids = {id(value): name for name, value in tensors.items()}
    return Arguments(seen, plain, tuple(others)), ids


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    if torch_names.is_seen_by_others(tensor):
        return 0, 0
    if tensor.is_floating_point() or tensor.is_complex() or not tensor.numel():
        return 0, 0
    try:
        low, high = tensor.aminmax()
        return int(low), int(high)
    except RuntimeError:  # such as of uint16, or of a tensor without data
        return 0, 0

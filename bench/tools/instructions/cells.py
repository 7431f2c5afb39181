"""The cells to count: tiny ops, each in every mode, with operands as a user of it has them.

`w` is a weight: a parameter, made before the mode is entered. `x` is either an `input`, made
before the mode is entered as a data loader would, or an `activation`, computed from `w` inside the
mode. They differ: under grad an activation has a history and an input has none, and in
inference_mode an activation is an inference tensor, which has no autograd keys of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from modescope.bench.devices.devices import Step
from modescope.bench.steps.modes import DTYPES, GRAD

WIDTH = 8  # of the square operands: too small for arithmetic to matter


@dataclass(frozen=True)
class Op:
    """One operator of torch and how a user calls it."""

    operator: str  # its name in the dispatcher
    step: Callable[[Tensor, Tensor], Step]  # x, w -> the call that is counted
    operands: int  # 1: x alone; 2: x and w


OPS = {
    "add": Op("aten::add.Tensor", lambda x, w: lambda: torch.add(x, w), 2),
    "mm": Op("aten::mm", lambda x, w: lambda: torch.mm(x, w), 2),
    "view": Op("aten::view", lambda x, w: lambda: x.view(-1), 1),
    # Under grad each call adds a node to the history of x, so an input also has one after the first
    # call. Freeing the history is included in the counts of the other ops, whose results are freed.
    "add_": Op("aten::add_.Tensor", lambda x, w: lambda: x.add_(w), 2),
}


@dataclass(frozen=True)
class DispatchAxes:
    """The two axes of a mode that affect the dispatcher."""

    grad: str  # enabled | no_grad | inference_mode
    autocast: bool


MODES = {
    "enabled": DispatchAxes("enabled", autocast=False),
    "no_grad": DispatchAxes("no_grad", autocast=False),
    "inference_mode": DispatchAxes("inference_mode", autocast=False),
    "autocast": DispatchAxes("enabled", autocast=True),
    "autocast+inference_mode": DispatchAxes("inference_mode", autocast=True),
}

KINDS = ("activation", "input")
"""The kinds of x; see above."""


@dataclass(frozen=True)
class CallCell:
    """A call to count."""

    op: str  # a key of OPS, ENTER or NOTHING
    mode: str  # a key of MODES
    x: str | None = None  # one of KINDS; None where there is no x


ENTER = "enter"
"""In place of an op: the mode is entered and left, from the initial state of a program."""

NOTHING = CallCell("nothing", "enabled")
"""An empty call in the same loop, whose count is subtracted."""


def plan(ops: Sequence[str], modes: Sequence[str], kinds: Sequence[str]) -> list[CallCell]:
    """The cells in the table's order; last, entering each mode that has a context."""
    calls = [CallCell(op, mode, x) for op in ops for x in kinds for mode in modes]
    return calls + [CallCell(ENTER, mode) for mode in modes if _contexts(MODES[mode])]


@contextmanager
def operands(cell: CallCell) -> Iterator[tuple[Tensor, ...]]:
    """Inside the cell's mode: the tensors that its op is called with, `[WIDTH, WIDTH]` float32."""
    w = torch.nn.Parameter(torch.rand(WIDTH, WIDTH))
    x = torch.rand(WIDTH, WIDTH)
    with ExitStack() as stack:
        for context in _contexts(MODES[cell.mode]):
            stack.enter_context(context())
        yield (x if cell.x == "input" else w * x, w)[: OPS[cell.op].operands]


@contextmanager
def ready(cell: CallCell) -> Iterator[Step]:
    """The call to be counted, inside the cell's mode; the mode is entered once for all calls."""
    if cell == NOTHING:
        yield _nothing
    elif cell.op == ENTER:
        yield _entering(_contexts(MODES[cell.mode]))
    else:
        with operands(cell) as (x, *rest):
            yield OPS[cell.op].step(x, rest[0] if rest else x)


ModeContext = Callable[[], AbstractContextManager[Any]]


def _contexts(mode: DispatchAxes) -> tuple[ModeContext, ...]:
    """Outermost first, as `bench.steps.modes` nests them."""
    grad = GRAD[mode.grad]
    # Without a cache each call casts its weight, like a forward that uses each weight once.
    autocast = partial(torch.autocast, "cpu", DTYPES["bf16"], cache_enabled=False)
    return (*([grad] if grad else []), *([autocast] if mode.autocast else []))


def _nothing() -> None:
    """An empty call."""


def _entering(contexts: Sequence[ModeContext]) -> Step:
    step: Step = _nothing
    for context in reversed(contexts):
        step = _under(context, step)
    return step


def _under(context: ModeContext, step: Step) -> Step:
    def inside() -> None:
        with context():
            step()

    return inside

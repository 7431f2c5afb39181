"""What is counted: tiny ops, each in every mode, on what a user of that mode would have.

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

from bench.devices import Step
from bench.modes import DTYPES, GRAD

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
    # Under grad each call adds a node to the history of x, so that an input has one from the first
    # call on. The end of a history is counted with the other ops, whose results die, but not here.
    "add_": Op("aten::add_.Tensor", lambda x, w: lambda: x.add_(w), 2),
}


@dataclass(frozen=True)
class Surroundings:
    """The two axes of a mode that the dispatcher sees."""

    grad: str  # enabled | no_grad | inference_mode
    autocast: bool


MODES = {
    "enabled": Surroundings("enabled", autocast=False),
    "no_grad": Surroundings("no_grad", autocast=False),
    "inference_mode": Surroundings("inference_mode", autocast=False),
    "autocast": Surroundings("enabled", autocast=True),
    "autocast+inference_mode": Surroundings("inference_mode", autocast=True),
}

KINDS = ("activation", "input")
"""What x can be; see above."""


@dataclass(frozen=True)
class Cell:
    """One thing to count."""

    op: str  # a key of OPS, ENTER or NOTHING
    mode: str  # a key of MODES
    x: str | None = None  # one of KINDS; None where there is no x


ENTER = "enter"
"""In place of an op: the mode is entered and left, from the state that a program starts in."""

NOTHING = Cell("nothing", "enabled")
"""An empty call in the same loop: what has to be subtracted."""


def plan(ops: Sequence[str], modes: Sequence[str], kinds: Sequence[str]) -> list[Cell]:
    """The cells in the table's order; last, entering each mode that has something to enter."""
    calls = [Cell(op, mode, x) for op in ops for x in kinds for mode in modes]
    return calls + [Cell(ENTER, mode) for mode in modes if _contexts(MODES[mode])]


@contextmanager
def operands(cell: Cell) -> Iterator[tuple[Tensor, ...]]:
    """Inside the cell's mode: the tensors that its op is called with, `[WIDTH, WIDTH]` float32."""
    w = torch.nn.Parameter(torch.rand(WIDTH, WIDTH))
    x = torch.rand(WIDTH, WIDTH)
    with ExitStack() as stack:
        for context in _contexts(MODES[cell.mode]):
            stack.enter_context(context())
        yield (x if cell.x == "input" else w * x, w)[: OPS[cell.op].operands]


@contextmanager
def ready(cell: Cell) -> Iterator[Step]:
    """The call to be counted, inside the cell's mode; the mode is entered once for all calls."""
    if cell == NOTHING:
        yield _nothing
    elif cell.op == ENTER:
        yield _entering(_contexts(MODES[cell.mode]))
    else:
        with operands(cell) as (x, *rest):
            yield OPS[cell.op].step(x, rest[0] if rest else x)


Context = Callable[[], AbstractContextManager[Any]]


def _contexts(mode: Surroundings) -> tuple[Context, ...]:
    """Outermost first, as `bench.modes` nests them."""
    grad = GRAD[mode.grad]
    # Without a cache each call casts its weight, as each forward does that uses it once.
    autocast = partial(torch.autocast, "cpu", DTYPES["bf16"], cache_enabled=False)
    return (*([grad] if grad else []), *([autocast] if mode.autocast else []))


def _nothing() -> None:
    """An empty call."""


def _entering(contexts: Sequence[Context]) -> Step:
    step: Step = _nothing
    for context in reversed(contexts):
        step = _under(context, step)
    return step


def _under(context: Context, step: Step) -> Step:
    def inside() -> None:
        with context():
            step()

    return inside

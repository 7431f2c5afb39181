"""What a cell came to, as facts: counts per block, and the keys as computed and as seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.instructions import keys
from bench.instructions.cells import ENTER, MODES, OPS, Cell, operands
from bench.instructions.profile import PARTS, Profile

PerBlock = tuple[float, ...] | None
"""Instructions of one call, per block, less those of an empty call; None: not counted."""


@dataclass(frozen=True)
class Row:
    """A cell and what was found."""

    op: str  # a key of OPS, or enter: the mode is entered and left
    mode: str
    grad: str  # enabled | no_grad | inference_mode
    autocast: bool  # to bf16
    x: str | None  # activation: computed inside the mode; input: made before; None: no x
    keys: tuple[str, ...] | None  # dispatch keys whose kernels a call runs, computed
    keys_seen: tuple[str, ...] | None  # that callgrind saw run; None: not known
    instructions: PerBlock  # all of them
    interpreter: PerBlock  # by the keys of PARTS
    bindings: PerBlock
    torch: PerBlock
    system: PerBlock


def row(
    cell: Cell,
    blocks: Sequence[Profile] | None = None,
    empty: Sequence[Profile] | None = None,
    calls: int = 1,
) -> Row:
    """Computes the keys here, and reads the rest from `blocks` of `calls` calls each.

    `empty`: as many calls of nothing. Without both nothing was counted.
    """
    path, seen = None, None
    if cell.op != ENTER:
        operator = OPS[cell.op].operator
        with operands(cell) as tensors:
            path = keys.visited(operator, tensors)
        if blocks:
            seen = keys.seen(operator, blocks[0].functions, path)
    counts: dict[str, PerBlock] = dict.fromkeys(("instructions", *PARTS))
    if blocks and empty:
        counts["instructions"] = _per_call(
            [block.total for block in blocks], [block.total for block in empty], calls
        )
        for part in PARTS:
            here, loop = ([each.by_part[part] for each in side] for side in (blocks, empty))
            counts[part] = _per_call(here, loop, calls)
    mode = MODES[cell.mode]
    return Row(cell.op, cell.mode, mode.grad, mode.autocast, cell.x, path, seen, **counts)


def _per_call(blocks: Sequence[int], empty: Sequence[int], calls: int) -> tuple[float, ...]:
    return tuple((block - median(empty)) / calls for block in blocks)


def typical(counts: PerBlock) -> float | None:
    """The median: now and then malloc tidies up its heap, which adds to a block or two."""
    return median(counts) if counts else None

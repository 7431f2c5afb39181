"""Rows of results: instructions per block, computed and executed dispatch keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from modescope.bench.tools.instructions import keys
from modescope.bench.tools.instructions.cells import ENTER, MODES, OPS, CallCell, operands
from modescope.bench.tools.instructions.profile import PARTS, CallgrindProfile

PerBlock = tuple[float, ...] | None
"""Instructions of one call in each block, minus those of an empty call; None: not counted."""


@dataclass(frozen=True)
class CallRow:
    """The result of one cell."""

    op: str  # a key of OPS, or enter: entering and leaving the mode
    mode: str
    grad: str  # enabled | no_grad | inference_mode
    autocast: bool  # to bf16
    x: str | None  # activation: computed inside the mode; input: made before; None: no x
    keys: tuple[str, ...] | None  # computed dispatch keys whose kernels a call runs
    keys_seen: tuple[str, ...] | None  # keys whose kernels ran under callgrind; None: unknown
    instructions: PerBlock  # in total
    interpreter: PerBlock  # by the keys of PARTS
    bindings: PerBlock
    torch: PerBlock
    system: PerBlock


def row(
    cell: CallCell,
    blocks: Sequence[CallgrindProfile] | None = None,
    empty: Sequence[CallgrindProfile] | None = None,
    calls: int = 1,
) -> CallRow:
    """The row of a cell: keys computed here, counts from `blocks` of `calls` calls each.

    `empty`: blocks of empty calls. Without both there are no counts.
    """
    path, executed = None, None
    if cell.op != ENTER:
        operator = OPS[cell.op].operator
        with operands(cell) as tensors:
            path = keys.visited(operator, tensors)
        if blocks:
            executed = keys.executed(operator, blocks[0].functions, path)
    counts: dict[str, PerBlock] = dict.fromkeys(("instructions", *PARTS))
    if blocks and empty:
        counts["instructions"] = _per_call(
            [block.total for block in blocks], [block.total for block in empty], calls
        )
        for part in PARTS:
            here, loop = ([each.by_part[part] for each in side] for side in (blocks, empty))
            counts[part] = _per_call(here, loop, calls)
    mode = MODES[cell.mode]
    return CallRow(cell.op, cell.mode, mode.grad, mode.autocast, cell.x, path, executed, **counts)


def _per_call(blocks: Sequence[int], empty: Sequence[int], calls: int) -> tuple[float, ...]:
    return tuple((block - median(empty)) / calls for block in blocks)


def typical(counts: PerBlock) -> float | None:
    """The median, because malloc sometimes consolidates its heap within a block."""
    return median(counts) if counts else None

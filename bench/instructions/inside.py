"""Runs under valgrind: calls each cell's step in blocks, and has callgrind dump after each block.

Reads its orders as JSON from the first argument; prints one line when torch is there (the
instruction set that torch chose) and one per finished cell.
"""

from __future__ import annotations

import gc
import json
import sys

import torch

from bench.devices import Step
from bench.instructions.cells import Cell, ready

WARM_UP = 3
"""Blocks before the counted ones: Python specialises its bytecode, torch sets up what it keeps."""


def main(orders: str) -> None:
    """`orders`: JSON of cells (op, mode, x), blocks, and calls per block."""
    asked = json.loads(orders)
    torch.set_num_threads(1)
    print(torch.backends.cpu.get_cpu_capability(), flush=True)
    gc.disable()
    for cell in asked["cells"]:
        with ready(Cell(**cell)) as step:
            _count(step, asked["blocks"], asked["calls"])
        gc.collect()
        print(flush=True)


def _count(step: Step, blocks: int, calls: int) -> None:
    for _ in range(WARM_UP):
        _repeat(step, calls)
    for _ in range(blocks):
        torch._C._valgrind_toggle()
        _repeat(step, calls)
        torch._C._valgrind_toggle_and_dump_stats()


def _repeat(step: Step, calls: int) -> None:
    for _ in range(calls):
        step()


if __name__ == "__main__":
    main(sys.argv[1])

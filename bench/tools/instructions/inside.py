"""Runs under valgrind: calls each cell's step in blocks, with a callgrind dump after each block.

Reads its request as JSON from the first argument; prints one line once torch is imported (the
instruction set that torch chose) and one per finished cell.
"""

from __future__ import annotations

import gc
import json
import sys

import torch

from modescope.bench.devices.devices import Step
from modescope.bench.tools.instructions.cells import CallCell, ready

WARM_UP = 3
"""Blocks before the counted ones: Python specialises bytecode, torch initialises its caches."""


def main(text: str) -> None:
    """`text`: JSON of cells (op, mode, x), blocks, and calls per block."""
    request = json.loads(text)
    torch.set_num_threads(1)
    print(torch.backends.cpu.get_cpu_capability(), flush=True)
    gc.disable()
    for cell in request["cells"]:
        with ready(CallCell(**cell)) as step:
            _count(step, request["blocks"], request["calls"])
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

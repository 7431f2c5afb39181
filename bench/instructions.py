"""Counts the machine instructions of a call in each gradient mode: `modescope instructions`.

Callgrind counts them in a process that torch starts, so they do not depend on how busy the machine
is. The instructions of an empty call are subtracted. Each row takes about two minutes. Prints a
page in Markdown.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torch.utils.benchmark import CallgrindStats, Timer
from tqdm import tqdm

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.text import markdown
from modescope.bench.tools.cli import ToolParser, command, heading, run_context

PROGRAM = program("bench.instructions")
CALLS = 100

OPERATORS = {
    "add": "torch.add(x, w)",
    "mm": "torch.mm(x, w)",
    "view": "x.view(-1)",
    "add_": "x.add_(w)",
}
MODES = {"enabled": "enable_grad", "no_grad": "no_grad", "inference_mode": "inference_mode"}
SETUP = """
w = torch.nn.Parameter(torch.rand(8, 8))
mode = torch.{mode}()
mode.__enter__()
x = w * torch.rand(8, 8)
"""

PARTS = {
    "interpreter": r"/(lib)?python3[^/]*$",
    "bindings": r"/libtorch_python[^/]*$",
    "torch": r"/torch/lib/|/lib(torch|c10)[^/]*$",
    "system": "",
}
"""The parts of a process, with patterns of the paths of their libraries. The first match decides.

`bindings` parse Python's arguments and wrap results; `torch` is dispatcher, autograd and kernels;
`system` is the rest, mostly malloc.
"""

NOTE = (
    "Operands are 8 × 8, float32: w is a parameter, and x is computed from it inside the mode, "
    "which is entered once. Columns after instructions are parts of them."
)
VARIABLES = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    "PYTHONHASHSEED": "0",
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
}
"""Environment of the counted process: torch starts it as `python`, so PATH begins with this one.

It has one thread, because callgrind counts the instructions of all threads.
"""


def part_of(function: str) -> str:
    """Returns the key of PARTS for the library in a function's name (`file:function [library]`)."""
    library = function.rpartition("[")[2].rstrip("]")
    return next(part for part, path in PARTS.items() if re.search(path, library))


def count(op: str, mode: str) -> list[str]:
    """Counts the instructions of a call of operator `op` in `mode`; returns the table's row.

    These are the instructions in total and by PARTS. Raises OSError if callgrind fails. torch first
    tries SETUP in this process, and SETUP never leaves the mode that it enters. So all happens in a
    thread of its own, with which the mode ends.
    """
    timer = Timer(OPERATORS[op], SETUP.format(mode=MODES[mode]))

    def run_callgrind() -> CallgrindStats:
        found: CallgrindStats = timer.collect_callgrind(CALLS)  # type: ignore[call-overload]
        return found  # torch's overloads leave out the defaults

    with ThreadPoolExecutor(1) as thread:
        stats = thread.submit(run_callgrind).result()
    calls = (stats.stmt_exclusive_stats - stats.baseline_exclusive_stats).transform(part_of)
    by_part = {part: times for times, part in calls}
    per_call = (times / CALLS for times in (calls.sum(), *(by_part.get(part, 0) for part in PARTS)))
    return [op, mode, *(f"{times:,.0f}" for times in per_call)]


@command
def main(words: Sequence[str]) -> int:
    """Prints a table of instructions per call, by operator and grad mode. Returns the exit status.

    It is 0 if done, 2 for wrong arguments or no working valgrind, 130 for Ctrl-C.
    """
    parser = ToolParser(PROGRAM, __doc__)
    add = parser.add_argument
    add("--ops", nargs="+", choices=OPERATORS, default=["add"], help="with spaces")
    options = parser.parse_args(words)
    lines = [f"- {line}" for line in heading(run_context("cpu", PROGRAM, words))]
    os.environ.update(VARIABLES)
    cells = [(op, mode) for op in options.ops for mode in MODES]
    try:
        rows = [count(*cell) for cell in tqdm(cells, disable=None, leave=False)]
    except OSError as error:
        *_, reason = str(error).strip().splitlines()
        raise UsageError(f"instructions are counted by valgrind: {reason}") from error
    table = markdown(("op", "mode", "instructions", *PARTS), rows)
    print("# Instructions per call", "\n".join(lines), NOTE, table, sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Checks modescope's accuracy on this machine, with quantities whose true values are known.

Prints a page in Markdown. Exit status: 0 if every check that can run here passes, 1 if one fails.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import torch

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.text import prose
from modescope.bench.tools.cli import ToolParser, command, heading, run_context
from modescope.bench.tools.selfcheck import exact, races
from modescope.bench.tools.selfcheck.check import SelfCheck, Setting, open_device

PROGRAM = program("bench.selfcheck")
EXIT_FAILED = 1
HEADERS = ("", "check", "condition", "result", "accepted")
WIDTHS = (4, 53, 24, 50, 0)
MARKS = {True: "pass", False: "FAIL", None: "–"}

# name -> check, in the order in which they run
CHECKS: dict[str, SelfCheck] = {
    "delays": exact.planted_delays,
    "spins": exact.planted_spins,
    "separation": exact.separation,
    "torch-timer": exact.torch_timer,
    "triton": exact.triton_bench,
    "equal": races.equal_steps,
    "planted": races.planted_changes,
    "disturbed": races.disturbances,
}


@command
def main(words: Sequence[str]) -> int:
    """Runs the checks, and prints a table of their results as it grows. Returns the exit status.

    It is 0 if no check fails, 1 if one does, 2 for wrong arguments, 130 for Ctrl-C.
    """
    parser = ToolParser(PROGRAM, __doc__)
    add = parser.add_argument
    add("--thorough", action="store_true", help="more trials: about half an hour")
    add("--only", help=f"run only these checks, separated by commas: {', '.join(CHECKS)}")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:<index>")
    add("--seed", type=int, default=0, help="seed of all random orders and draws")
    options = parser.parse_args(words)
    names = options.only.split(",") if options.only else list(CHECKS)
    if not set(names) <= set(CHECKS):
        raise UsageError(f"--only {options.only}: allowed are {', '.join(CHECKS)}")
    setting = Setting(open_device(options.device), options.thorough, options.seed)
    context = run_context(options.device, PROGRAM, words)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    gc.collect()
    gc.freeze()  # excludes imported objects from the collection before each comparison (0.2 s)
    print("# Self-check of modescope\n")
    print("\n".join(f"- {line}" for line in heading(context)), end="\n\n")
    print(f"{_line(HEADERS)}\n{_line(['---'] * len(HEADERS))}", flush=True)
    verdicts: list[bool | None] = []
    for name in names:
        for row in CHECKS[name](setting):
            verdicts.append(row.holds)
            cells = (MARKS[row.holds], row.check, row.condition, row.found, row.accepted)
            print(_line(cells), flush=True)
    print(f"\n{_summary(verdicts)}")
    return EXIT_FAILED if False in verdicts else 0


def _line(cells: Sequence[str]) -> str:
    padded = (f"{prose(cell):{width}}" for cell, width in zip(cells, WIDTHS, strict=True))
    return f"| {' | '.join(padded)} |"


def _summary(verdicts: Sequence[bool | None]) -> str:
    decided = len(verdicts) - verdicts.count(None)
    text = f"{verdicts.count(True)} of {decided} checks pass"
    if None in verdicts:
        text += f"; {verdicts.count(None)} cannot run on this machine"
    return f"{text}."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

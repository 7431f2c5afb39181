"""Counts the instructions of a call in each mode, and lists the dispatch keys that it visits.

Tiny ops are called under callgrind, whose counts do not depend on the machine's load; the keys are
computed from torch's own tables. CPU only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tqdm import tqdm

from modescope.bench.text import tables
from modescope.bench.tools import publish
from modescope.bench.tools.cli import INTERRUPTED, command
from modescope.bench.tools.instructions import callgrind
from modescope.bench.tools.instructions.arguments import PROGRAM, InstructionsOptions, parse
from modescope.bench.tools.instructions.cells import ENTER, NOTHING
from modescope.bench.tools.instructions.rows import CallRow, row
from modescope.bench.tools.instructions.tables import sections
from modescope.bench.tools.publish import RunContext

EXIT_FAILED = 1
TITLE = "Instructions and dispatch keys per call"


@dataclass(frozen=True)
class Counting:
    """How instructions were counted; all None if they were not."""

    valgrind_version: str | None = None
    valgrind_capability: str | None = None  # instruction set that torch chose under it
    calls: int | None = None  # per block

    def __str__(self) -> str:
        """The line about the counting above the tables."""
        return (
            f"valgrind {self.valgrind_version}, under which torch uses {self.valgrind_capability}; "
            f"{self.calls} calls per block"
        )


@command
def main(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 valgrind failed, 2 wrong arguments or no valgrind, 130 by Ctrl-C."""
    options = parse(words, __doc__)
    program = None if options.keys_only else callgrind.available()
    context = publish.run_context("cpu", 1, PROGRAM, words)
    try:
        rows, counting = _keys(options) if program is None else _counted(options, program)
    except callgrind.Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("stopped; nothing is written")
        return INTERRUPTED
    _show(options, context, counting, rows)
    return 0


def _keys(options: InstructionsOptions) -> tuple[list[CallRow], Counting]:
    return [row(cell) for cell in options.cells if cell.op != ENTER], Counting()


def _counted(options: InstructionsOptions, program: str) -> tuple[list[CallRow], Counting]:
    how = options.thoroughness
    cells = [NOTHING, *options.cells]
    stages = iter([*(f"{cell.op} {cell.mode}" for cell in cells), "reading counts"])
    with tqdm(total=len(cells) + 1, desc="torch under valgrind", disable=None, leave=False) as bar:

        def done() -> None:
            bar.set_description(next(stages))
            bar.update()

        counts = callgrind.count(program, cells, how.blocks, how.calls, done)
    empty, *blocks = counts.blocks
    rows = [
        row(cell, each, empty, how.calls) for cell, each in zip(options.cells, blocks, strict=True)
    ]
    return rows, Counting(callgrind.version(program), counts.cpu_capability, how.calls)


def _show(
    options: InstructionsOptions, context: RunContext, counting: Counting, rows: Sequence[CallRow]
) -> None:
    """Writes the files, then prints: nothing is lost if the terminal closes."""
    written = sections(rows)
    head = publish.heading(context, *([str(counting)] if counting.calls else []))
    text = tables.page(TITLE, head, written)
    page, table = publish.publish(options.folder, context, text, {CallRow: rows}, counting)
    print("\n".join(head))
    for each in written:
        print(f"\n{tables.for_terminal(each)}")
    print(f"\npage  {page}\nrows  {table}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

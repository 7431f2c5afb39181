"""What does a call cost in each mode, in instructions, and which dispatch keys does it visit?

Tiny ops are called under callgrind, whose counts no other load on the machine changes; the keys are
computed from torch's own tables. CPU only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tqdm import tqdm

from bench import pages, publishing
from bench.arguments import INTERRUPTED, command
from bench.instructions import callgrind
from bench.instructions.arguments import PROGRAM, Asked, parse
from bench.instructions.cells import ENTER, NOTHING
from bench.instructions.rows import Row, row
from bench.instructions.tables import sections
from bench.publishing import Surroundings

EXIT_FAILED = 1
TITLE = "Instructions and dispatch keys per call"


@dataclass(frozen=True)
class Counting:
    """How instructions were counted; nothing is known where they were not."""

    valgrind_version: str | None = None
    valgrind_capability: str | None = None  # instruction set that torch chose under it
    calls: int | None = None  # per block

    def __str__(self) -> str:
        """Its line above the tables."""
        return (
            f"valgrind {self.valgrind_version}, under which torch uses {self.valgrind_capability}; "
            f"{self.calls} calls a block"
        )


@command
def main(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 valgrind failed, 2 wrong arguments or no valgrind, 130 by Ctrl-C."""
    asked = parse(words, __doc__)
    program = None if asked.keys_only else callgrind.available()
    around = publishing.surroundings("cpu", 1, PROGRAM, words)
    try:
        rows, counting = _keys(asked) if program is None else _counted(asked, program)
    except callgrind.Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("stopped; nothing is written")
        return INTERRUPTED
    _show(asked, around, counting, rows)
    return 0


def _keys(asked: Asked) -> tuple[list[Row], Counting]:
    return [row(cell) for cell in asked.cells if cell.op != ENTER], Counting()


def _counted(asked: Asked, program: str) -> tuple[list[Row], Counting]:
    how = asked.thoroughness
    cells = [NOTHING, *asked.cells]
    coming = iter([*(f"{cell.op} {cell.mode}" for cell in cells), "reading"])
    with tqdm(total=len(cells) + 1, desc="torch under valgrind", disable=None, leave=False) as bar:

        def done() -> None:
            bar.set_description(next(coming))
            bar.update()

        counts = callgrind.count(program, cells, how.blocks, how.calls, done)
    empty, *blocks = counts.blocks
    rows = [
        row(cell, each, empty, how.calls) for cell, each in zip(asked.cells, blocks, strict=True)
    ]
    return rows, Counting(callgrind.version(program), counts.cpu_capability, how.calls)


def _show(asked: Asked, around: Surroundings, counting: Counting, rows: Sequence[Row]) -> None:
    """Writes first: a terminal that goes away takes nothing with it."""
    found = sections(rows)
    head = publishing.heading(around, *([str(counting)] if counting.calls else []))
    text = pages.page(TITLE, head, found)
    page, table = publishing.publish(asked.folder, around, text, {Row: rows}, counting)
    print("\n".join(head))
    for each in found:
        print(f"\n{pages.told(each)}")
    print(f"\npage  {page}\nrows  {table}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

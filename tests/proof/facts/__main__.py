"""Checks on the device what the design takes for granted: `python -m tests.proof.facts`.

Writes a page and the rows, like the self-check. Rows about torch are reported only: they confirm or
refute what is written of it, and either is a result.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.records.errors import UsageError
from modescope.bench.records.progress import one_line
from modescope.bench.text import tables
from modescope.bench.tools import publish
from modescope.bench.tools.cli import ToolParser, check_folder, command
from modescope.bench.tools.selfcheck.outcomes import CheckRow
from modescope.bench.tools.testbed.sides import ready
from tests.proof.facts import instrument, of_torch
from tests.proof.facts.fact import Fact, Place

PROGRAM = "python -m tests.proof.facts"
GROUPS: dict[str, Sequence[Fact]] = {**instrument.GROUPS, **of_torch.GROUPS}
HEADERS = ("", "check", "condition", "result", "accepted")
MARKS = {True: "pass", False: "FAIL", None: "–"}


def rows(fact: Fact, place: Place) -> list[CheckRow]:
    """The rows of a fact; one that fails where it raises."""
    try:
        return list(fact(place))
    except Exception as error:
        name = fact.__name__.replace("_", " ")
        return [CheckRow(name, "quiet", f"raised: {one_line(error, 200)}", "no error", False, 0)]


@dataclass(frozen=True)
class FactOptions:
    """The command line: fields are named as its options."""

    only: str
    device: str
    small: bool
    results_dir: Path

    @property
    def groups(self) -> list[str]:
        """The chosen groups."""
        return self.only.split(",")

    @property
    def folder(self) -> Path:
        """Where the files go."""
        return self.results_dir / "facts"


def parse(words: Sequence[str]) -> FactOptions:
    """What `words` ask for; raises UsageError, and SystemExit(0) after --help."""
    parser = ToolParser(PROGRAM, __doc__)
    add = parser.add_argument
    add("--only", default=",".join(GROUPS), help=f"groups, with commas: {', '.join(GROUPS)}")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:<index>")
    add("--small", action="store_true", help="small models, for a rehearsal")
    add("--results-dir", type=Path, default=Path("results"), help="files go to its facts/")
    options = FactOptions(**vars(parser.parse_args(words)))
    if not set(options.groups) <= set(GROUPS):
        raise UsageError(f"--only {options.only}: allowed are {', '.join(GROUPS)}")
    check_folder(options.folder)
    return options


@command
def main(words: Sequence[str]) -> int:
    """Exit status: 0 all hold, 1 one does not, 2 wrong arguments."""
    options = parse(words)
    place = Place(ready(options.device), options.device, options.small)
    context = publish.run_context(options.device, 1, PROGRAM, words)
    found: list[CheckRow] = []
    for fact in (fact for group in options.groups for fact in GROUPS[group]):
        for row in rows(fact, place):
            found.append(row)
            print(f"{MARKS[row.holds]:5} {row.check} ({row.condition}): {row.found}", flush=True)
    lines = [(MARKS[row.holds], row.check, row.condition, row.found, row.accepted) for row in found]
    section = tables.Section("Facts", f"Groups: {', '.join(options.groups)}.", HEADERS, lines)
    text = tables.page("Facts", publish.heading(context), [section])
    page, table = publish.publish(options.folder, context, text, {CheckRow: found})
    print(f"\npage  {page}\nrows  {table}")
    return int(any(row.holds is False for row in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

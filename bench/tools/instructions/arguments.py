"""The command line of `python -m bench.instructions`, checked before anything is counted."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.records.paths import program
from modescope.bench.tools.cli import ToolParser, check_folder
from modescope.bench.tools.instructions.cells import KINDS, MODES, OPS, CallCell, plan

PROGRAM = program("bench.instructions")


@dataclass(frozen=True)
class Thoroughness:
    """The numbers of blocks and calls, and the kinds of x."""

    blocks: int
    calls: int  # per block
    kinds: Sequence[str]  # of x


QUICK = Thoroughness(blocks=5, calls=20, kinds=KINDS[:1])
STANDARD = Thoroughness(blocks=9, calls=50, kinds=KINDS)


@dataclass(frozen=True)
class InstructionsOptions:
    """The command line: fields are named as its options."""

    ops: list[str]
    modes: list[str]
    quick: bool
    keys_only: bool
    results_dir: Path

    @property
    def thoroughness(self) -> Thoroughness:
        """Blocks, calls and kinds of operands."""
        return QUICK if self.quick else STANDARD

    @property
    def cells(self) -> list[CallCell]:
        """The cells to count, in the order of the table."""
        return plan(self.ops, self.modes, self.thoroughness.kinds)

    @property
    def folder(self) -> Path:
        """Where the files go."""
        return self.results_dir / "instructions"


def parse(words: Sequence[str], description: str | None) -> InstructionsOptions:
    """The options in `words`; raises UsageError, and SystemExit(0) after --help."""
    options = InstructionsOptions(**vars(_parser(description).parse_args(words)))
    check_folder(options.folder)
    return options


def _parser(description: str | None) -> ToolParser:
    parser = ToolParser(PROGRAM, description)
    add = parser.add_argument
    for name, known in (("ops", OPS), ("modes", MODES)):
        each = ",".join(known)
        add(f"--{name}", type=_some_of(known), default=each, help="with commas", metavar="NAMES")
    add("--quick", action="store_true", help="fewer calls, and no inputs made before the mode")
    add("--keys-only", action="store_true", help="only dispatch keys, which needs no valgrind")
    add("--results-dir", type=Path, default=Path("results"), help="files go to its instructions/")
    return parser


def _some_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """A parser of names separated by commas; duplicates are dropped."""

    def names(text: str) -> list[str]:
        chosen = list(dict.fromkeys(text.split(",")))
        wrong = [name for name in chosen if name not in known]
        if wrong:
            given = " and ".join(repr(name) for name in wrong)
            raise argparse.ArgumentTypeError(f"{given} is none of {', '.join(known)}")
        return chosen

    return names

"""The command line of `python -m bench.instructions`, checked before anything is counted."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.arguments import Parser, check_folder
from bench.instructions.cells import KINDS, MODES, OPS, Cell, plan

PROGRAM = "python -m bench.instructions"


@dataclass(frozen=True)
class Thoroughness:
    """How much is counted."""

    blocks: int
    calls: int  # per block
    kinds: Sequence[str]  # of x


QUICK = Thoroughness(blocks=5, calls=20, kinds=KINDS[:1])
STANDARD = Thoroughness(blocks=9, calls=50, kinds=KINDS)


@dataclass(frozen=True)
class Asked:
    """What is to be counted; names of fields are those of options."""

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
    def cells(self) -> list[Cell]:
        """In the order of the table."""
        return plan(self.ops, self.modes, self.thoroughness.kinds)

    @property
    def folder(self) -> Path:
        """Where the files go."""
        return self.results_dir / "instructions"


def parse(words: Sequence[str], description: str | None) -> Asked:
    """What `words` ask for; raises UsageError, and SystemExit(0) after --help."""
    asked = Asked(**vars(_parser(description).parse_args(words)))
    check_folder(asked.folder)
    return asked


def _parser(description: str | None) -> Parser:
    parser = Parser(PROGRAM, description)
    add = parser.add_argument
    for name, known in (("ops", OPS), ("modes", MODES)):
        each = ",".join(known)
        add(f"--{name}", type=_some_of(known), default=each, help="with commas", metavar="NAMES")
    add("--quick", action="store_true", help="fewer calls, and no inputs made before the mode")
    add("--keys-only", action="store_true", help="dispatch keys alone, which needs no valgrind")
    add("--results-dir", type=Path, default=Path("results"), help="files go to instructions/ in it")
    return parser


def _some_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Reads names between commas; each counts once."""

    def names(text: str) -> list[str]:
        found = list(dict.fromkeys(text.split(",")))
        wrong = [name for name in found if name not in known]
        if wrong:
            said = " and ".join(repr(name) for name in wrong)
            raise argparse.ArgumentTypeError(f"{said} is none of {', '.join(known)}")
        return found

    return names

"""The command line of `python -m bench.claims`, checked before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.tools.claims.claim import Claim
from modescope.bench.tools.claims.table import CLAIMS
from modescope.bench.tools.cli import ToolParser, check_folder

PROGRAM = program("bench.claims")

# what may be left out -> which claims
KINDS: dict[str, Callable[[Claim], bool]] = {
    "timed": lambda claim: claim.timed,
    "compiled": lambda claim: claim.compiles,
}


@dataclass(frozen=True)
class ClaimOptions:
    """The command line: fields are named as its options."""

    claims: list[str]
    listing: bool  # --list
    without: str
    device: str
    results_dir: Path

    @property
    def chosen(self) -> list[Claim]:
        """The claims, in the order of the table."""
        left_out = [KINDS[kind] for kind in self.without.split(",") if kind]
        return [
            claim
            for claim in CLAIMS.values()
            if (not self.claims or claim.id in self.claims)
            and not any(kind(claim) for kind in left_out)
        ]

    @property
    def folder(self) -> Path:
        """Where the files go."""
        return self.results_dir / "claims"


def parse(words: Sequence[str], description: str | None) -> ClaimOptions:
    """What `words` ask for; raises UsageError, and SystemExit(0) after --help."""
    parser = ToolParser(PROGRAM, description)
    add = parser.add_argument
    add("claims", nargs="*", help="ids of claims; all, if none is named", metavar="ID")
    add(
        "--list",
        dest="listing",
        action="store_true",
        help="print ids, needs and statements, and run nothing",
    )
    add("--without", default="", help=f"kinds to leave out, with commas: {', '.join(KINDS)}")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:<index>, beside the CPU")
    add("--results-dir", type=Path, default=Path("results"), help="files go to claims/ in it")
    options = ClaimOptions(**vars(parser.parse_args(words)))
    for name in options.claims:
        _check(name, list(CLAIMS), "no such claim", f"; {PROGRAM} --list prints them")
    for kind in filter(None, options.without.split(",")):
        _check(kind, list(KINDS), "--without: no such kind", f"; known are {', '.join(KINDS)}")
    if not options.chosen:
        raise UsageError(
            f"--without {options.without}: no claim is left of {options.claims or 'all'}"
        )
    if not options.listing:
        check_folder(options.folder)
    return options


def _check(name: str, known: Sequence[str], complaint: str, otherwise: str) -> None:
    """Raises UsageError for a name that is not known."""
    if name not in known:
        close = difflib.get_close_matches(name, known, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else otherwise
        raise UsageError(f"{name}: {complaint}{hint}")

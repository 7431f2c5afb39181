"""Tests on this machine whether statements from documents about PyTorch are true.

Ends with status 0 if every test that this machine can make was made, whatever its verdict.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.text import plain
from modescope.bench.tools.claims import page
from modescope.bench.tools.claims.check import CLAIMS, ClaimRow, NumberRow, check
from modescope.bench.tools.cli import ToolParser, command, heading, publish, run_context

PROGRAM = program("bench.claims")
EXIT_FAILED = 1


@command
def main(words: Sequence[str]) -> int:
    """Runs the command. Returns 0, or 1 if a test failed, 2 for wrong arguments, 130 for Ctrl-C."""
    parser = ToolParser(PROGRAM, __doc__)
    add = parser.add_argument
    add("claims", nargs="*", help="ids of claims; all, if none is named", metavar="ID")
    add("--list", action="store_true", help="print ids, needs and statements, and run nothing")
    add("--quick", action="store_true", help="leave out what is timed or compiled")
    add("--device", default="auto", help="of claims about it: auto, cpu, cuda or cuda:<index>")
    add("--results-dir", type=Path, default=Path("results"), help="files go to claims/ in it")
    options = parser.parse_args(words)
    for name in options.claims:
        if name not in CLAIMS:
            raise UsageError(f"{name}: no such claim; {PROGRAM} --list prints them")
    asked = [claim for name, claim in CLAIMS.items() if name in (options.claims or CLAIMS)]
    chosen = [claim for claim in asked if not (options.quick and claim.slow)]
    if not chosen:
        raise UsageError("--quick: all of these claims are timed or compiled")
    if options.list:
        rows = [(claim.id, claim.needs, claim.statement) for claim in chosen]
        print(plain(("id", "needs", "statement"), rows))
        return 0
    folder: Path = options.results_dir / "claims"
    folder.mkdir(parents=True, exist_ok=True)
    context = run_context(options.device, PROGRAM, words)
    about_run = heading(context)
    print("\n".join(about_run), end="\n\n")
    answers: list[ClaimRow] = []
    numbers: list[NumberRow] = []
    log = folder / "log.txt"
    log.unlink(missing_ok=True)
    for claim in chosen:
        row, observed = check(claim, context.device, log)
        answers.append(row)
        numbers += observed
        print(page.line(row), flush=True)
    failures = page.failures(answers)
    print("\n".join(["", f"{page.summary(answers)}.", *failures]))
    text = page.page(about_run, answers, numbers)
    print("\npage  {}\nrows  {}".format(*publish(folder, context, text, [*answers, *numbers])))
    return EXIT_FAILED if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

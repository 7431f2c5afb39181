"""Is what the textbook says of PyTorch true on this machine? Each statement is put to a test.

Ends with status 0 if every test that this machine can make was made, whatever its verdict.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.text.tables import plain
from modescope.bench.tools import publish
from modescope.bench.tools.claims import page
from modescope.bench.tools.claims.check import CLAIMS, ClaimRow, NumberRow, check
from modescope.bench.tools.claims.claim import Claim
from modescope.bench.tools.cli import INTERRUPTED, ToolParser, check_folder, command

PROGRAM = program("bench.claims")
EXIT_FAILED = 1


@command
def main(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 a test failed, 2 wrong arguments, 130 by Ctrl-C."""
    options = parse(words)
    chosen = choose(options.claims, options.quick)
    if options.list:
        rows = [(claim.id, claim.needs, claim.statement) for claim in chosen]
        print(plain(("id", "needs", "statement"), rows))
        return 0
    folder: Path = options.results_dir / "claims"
    check_folder(folder)
    context = publish.run_context(options.device, 1, PROGRAM, words)
    heading = publish.heading(context)
    print("\n".join(heading), end="\n\n")
    answers: list[ClaimRow] = []
    numbers: list[NumberRow] = []
    stopped = False
    log = folder / "log.txt"
    log.unlink(missing_ok=True)
    try:
        for claim in chosen:
            row, observed = check(claim, context.device, log)
            answers.append(row)
            numbers += observed
            print(page.line(row), flush=True)
    except KeyboardInterrupt:
        print("stopped; the answers above are kept")
        stopped = True
    failures = page.failures(answers)
    if answers:
        print("\n".join(["", f"{page.summary(answers)}.", *failures]))
        text = page.page(heading, answers, numbers)
        kinds: dict[type, list[Any]] = {ClaimRow: answers, NumberRow: numbers}
        markdown, table = publish.publish(folder, context, text, kinds)
        print(f"\npage  {markdown}\nrows  {table}")
    return INTERRUPTED if stopped else EXIT_FAILED if failures else 0


def parse(words: Sequence[str]) -> argparse.Namespace:
    """What `words` ask for; raises UsageError, and SystemExit(0) after --help."""
    parser = ToolParser(PROGRAM, __doc__)
    add = parser.add_argument
    add("claims", nargs="*", help="ids of claims; all, if none is named", metavar="ID")
    add("--list", action="store_true", help="print ids, needs and statements, and run nothing")
    add("--quick", action="store_true", help="leave out what is timed or compiled")
    add(
        "--device",
        default="auto",
        help="auto, cpu, cuda or cuda:<index>, for claims that concern it",
    )
    add("--results-dir", type=Path, default=Path("results"), help="files go to claims/ in it")
    return parser.parse_args(words)


def choose(ids: Sequence[str], quick: bool) -> list[Claim]:
    """The claims with these ids, all if there are none; raises UsageError for an unknown id."""
    for name in ids:
        if name not in CLAIMS:
            close = difflib.get_close_matches(name, CLAIMS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"{PROGRAM} --list prints them"
            raise UsageError(f"{name}: no such claim; {hint}")
    chosen = [CLAIMS[name] for name in CLAIMS if name in ids or not ids]
    if quick:
        chosen = [each for each in chosen if not each.slow]
    if not chosen:
        raise UsageError("--quick: all of these claims are timed or compiled")
    return chosen


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

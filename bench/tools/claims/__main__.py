"""Is what the textbook says of PyTorch true on this machine? Each statement is an experiment.

Ends with status 0 if every experiment that this machine can make was made, whatever its verdict.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from modescope.bench.records import files
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.text.tables import plain
from modescope.bench.tools import publish
from modescope.bench.tools.claims import page
from modescope.bench.tools.claims.checking import CLAIMS, ClaimRow, NumberRow, check
from modescope.bench.tools.claims.claim import Claim
from modescope.bench.tools.cli import INTERRUPTED, ToolParser, check_folder, command
from modescope.bench.tools.publish import RunContext

PROGRAM = program("bench.claims")
EXIT_FAILED = 1

# what may be left out -> which claims
KINDS: dict[str, Callable[[Claim], bool]] = {
    "timed": lambda claim: claim.timed,
    "compiled": lambda claim: bool(claim.compilers),
}


@command
def main(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 an experiment failed, 2 wrong arguments, 130 by Ctrl-C."""
    options = parse(words)
    chosen = choose(options.claims, options.without)
    if options.list:
        rows = [(claim.id, " ".join(claim.needs), claim.statement) for claim in chosen]
        print(plain(("id", "needs", "statement"), rows))
        return 0
    folder: Path = options.results_dir / "claims"
    check_folder(folder)
    context = publish.run_context(options.device, 1, PROGRAM, words)
    print("\n".join(publish.heading(context)), end="\n\n")
    results: list[ClaimRow] = []
    numbers: list[NumberRow] = []
    stopped = False
    devices = list(dict.fromkeys(("cpu", context.device)))
    try:
        with tqdm(chosen, unit="claim", disable=None, leave=False) as bar:
            for claim in bar:
                bar.set_description(claim.id)
                result, observed = check(claim, devices, folder / "logs")
                results.append(result)
                numbers += observed
                bar.write(page.line(result))
                sys.stdout.flush()
    except KeyboardInterrupt:
        print("stopped; the answers above are kept")
        stopped = True
    with contextlib.suppress(OSError):  # there is none, or something failed and it says why
        (folder / "logs").rmdir()
    failures = page.failures(results)
    if results:
        print("\n".join(["", f"{page.summary(results)}.", *failures]))
        _publish(folder, context, results, numbers)
    return INTERRUPTED if stopped else EXIT_FAILED if failures else 0


def parse(words: Sequence[str]) -> argparse.Namespace:
    """What `words` ask for; raises UsageError, and SystemExit(0) after --help."""
    parser = ToolParser(PROGRAM, __doc__)
    add = parser.add_argument
    add("claims", nargs="*", help="ids of claims; all, if none is named", metavar="ID")
    add("--list", action="store_true", help="print ids, needs and statements, and run nothing")
    add("--without", default="", help=f"kinds to leave out, with commas: {', '.join(KINDS)}")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:<index>, beside the CPU")
    add("--results-dir", type=Path, default=Path("results"), help="files go to claims/ in it")
    return parser.parse_args(words)


def choose(claims: Sequence[str], without: str) -> list[Claim]:
    """The claims with these ids, all if there are none, but for kinds that are left out."""
    kinds = [kind for kind in without.split(",") if kind]
    for name in claims:
        _check(name, CLAIMS)
    for name in kinds:
        _check(name, KINDS)
    chosen = [CLAIMS[name] for name in CLAIMS if name in claims or not claims]
    chosen = [claim for claim in chosen if not any(KINDS[kind](claim) for kind in kinds)]
    if not chosen:
        raise UsageError(f"--without {without}: no claim is left")
    return chosen


def _check(name: str, known: Mapping[str, object]) -> None:
    """Raises UsageError for a name that is not known."""
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"{PROGRAM} --list prints them"
        raise UsageError(f"{name}: no such claim or kind; {hint}")


def _publish(
    folder: Path, context: RunContext, results: list[ClaimRow], numbers: list[NumberRow]
) -> None:
    contents = page.contents(publish.heading(context), results, numbers)
    rows_by_kind: dict[type, Sequence[Any]] = {ClaimRow: results, NumberRow: numbers}
    markdown, rows = publish.publish(folder, context, page.markdown_page(contents), rows_by_kind)
    html = rows.with_suffix(".html")
    with files.atomic_write(html, sync=True) as partial:
        partial.write_text(page.html_page(contents), encoding="utf-8")
    print(f"\npage  {html}\n      {markdown}\nrows  {rows}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Is what the textbook says of PyTorch true on this machine? Each statement is an experiment.

Ends with status 0 where every experiment that this machine can make was made, whatever its verdict.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from tqdm import tqdm

from modescope.bench.records import files
from modescope.bench.text.tables import plain
from modescope.bench.tools import publish
from modescope.bench.tools.claims import page
from modescope.bench.tools.claims.arguments import PROGRAM, ClaimOptions, parse
from modescope.bench.tools.claims.checking import ClaimResult, check
from modescope.bench.tools.claims.figures import Figure
from modescope.bench.tools.cli import INTERRUPTED, command
from modescope.bench.tools.publish import RunContext

EXIT_FAILED = 1


@command
def main(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 an experiment failed, 2 wrong arguments, 130 by Ctrl-C."""
    options = parse(words, __doc__)
    if options.listing:
        rows = [(claim.id, " ".join(claim.needs), claim.statement) for claim in options.chosen]
        print(plain(("id", "needs", "statement"), rows))
        return 0
    context = publish.run_context(options.device, 1, PROGRAM, words)
    print("\n".join(publish.heading(context)), end="\n\n")
    results: list[ClaimResult] = []
    figures: list[Figure] = []
    stopped = False
    try:
        _check_all(options, context, results, figures)
    except KeyboardInterrupt:
        print("stopped; the answers above are kept")
        stopped = True
    failures = page.failures(results)
    if results:
        print("\n".join(["", f"{page.summary(results)}.", *failures]))
        _publish(options, context, results, figures)
    return INTERRUPTED if stopped else EXIT_FAILED if failures else 0


def _check_all(
    options: ClaimOptions, context: RunContext, results: list[ClaimResult], figures: list[Figure]
) -> None:
    """Fills the two lists, so that an interruption leaves what is done."""
    devices = ["cpu", *([context.device] if context.device != "cpu" else [])]
    with tqdm(options.chosen, unit="claim", disable=None, leave=False) as bar:
        for claim in bar:
            bar.set_description(claim.id)
            result, observed = check(claim, devices, options.folder / "logs")
            results.append(result)
            figures += observed
            bar.write(page.line(result))
            sys.stdout.flush()
    with contextlib.suppress(OSError):  # there is none, or something failed and it says why
        (options.folder / "logs").rmdir()


def _publish(
    options: ClaimOptions,
    context: RunContext,
    results: Sequence[ClaimResult],
    figures: Sequence[Figure],
) -> None:
    heading = publish.heading(context)
    contents = page.contents(heading, results, figures)
    markdown, rows = publish.publish(
        options.folder,
        context,
        page.markdown_page(contents),
        {ClaimResult: results, Figure: figures},
    )
    html = rows.with_suffix(".html")
    with files.atomic_write(html, sync=True) as partial:
        partial.write_text(page.html_page(contents), encoding="utf-8")
    print(f"\npage  {html}\n      {markdown}\nrows  {rows}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

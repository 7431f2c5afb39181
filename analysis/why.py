"""Prints why each row is as fast as it is: `modescope why [results/main] [--where ...]`.

Below each row are the causes, the most important first, with the evidence and what to do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from modescope.analysis import cli

if __name__ == "__main__":
    cli.check(cli.why(__doc__))

import pandas as pd

from modescope.analysis import where
from modescope.analysis.causes import finding
from modescope.analysis.causes.outcome import lead, undecided
from modescope.analysis.causes.types import Finding
from modescope.analysis.chosen import chosen
from modescope.analysis.derive.select import SECTION, ordered, split_rows
from modescope.analysis.format import cells, phrases
from modescope.analysis.format.phrases import indented_paragraph
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows


def text(rows: pd.DataFrame, found: Mapping[str, tuple[Finding, ...]]) -> str:
    """Returns derived rows grouped by work, each with its causes; `found`: run_id -> causes."""
    blocks = split_rows(as_rows(ordered(rows)), SECTION)
    letter = rows["environment"].nunique() > 1
    return "\n\n".join("\n".join(_block(block, letter, found)) for block in blocks)


def _block(
    block: Sequence[Row], letter: bool, found: Mapping[str, tuple[Finding, ...]]
) -> Iterator[str]:
    yield f"{phrases.work(block[0])} · {phrases.place(block[0], letter)}"
    for row in block:
        yield f"{phrases.variant(row)} · {cells.outcome(row)}"
        for paragraph in paragraphs(row, found.get(row["run_id"], ())):
            yield from indented_paragraph(paragraph)


def paragraphs(row: Row, causes: Sequence[Finding]) -> Iterator[str]:
    """Yields a text for each cause of a row, or one text that says why there is none."""
    if not causes and (why := predicates.why_left_out(row)):
        yield why
    elif not causes:
        yield lead(row) if predicates.is_control(row) else f"{lead(row)}: {undecided(row)}."
    else:
        yield f"[{causes[0].code}] {causes[0].text}"
        yield from (f"[{cause.code}] {finding.standalone_text(cause)}" for cause in causes[1:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = cli.why(__doc__)

    def body() -> None:
        options = parser.parse_args(arguments)
        found = chosen(options.study, options.where)
        if found.rows.empty:
            print(where.count(found.rows, found.total, options.where))
        else:
            print(text(found.rows, found.causes))

    return cli.exit_status(body)


if __name__ == "__main__":
    sys.exit(main())

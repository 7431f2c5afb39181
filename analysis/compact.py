"""Joins the files of a study's rows into one: `modescope compact [results/main]`.

Each row is first written to a file of its own. A sweep joins its files at its end; this program
joins the files that single cases and interrupted sweeps left. It may be interrupted at any moment,
and may run while a sweep measures: no row is lost, and the next call finishes the work.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from modescope.analysis import cli
from modescope.bench.records import rows
from modescope.bench.records.errors import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    return rewrite(cli.parser("analysis.compact", __doc__), arguments)


def rewrite(
    parser: cli.Parser,
    arguments: Sequence[str] | None,
    change: rows.TableChange | None = None,
    done_to_rows: str = "joined",
) -> int:
    """Joins the row files of the study that `arguments` name, and returns the exit status.

    `change` is applied to all rows. `done_to_rows` is the output's word for what was done to them.
    """

    def body() -> None:
        study = parser.parse_args(arguments).study
        folder = study / rows.ROWS
        if not isinstance(folder, Path) or not folder.is_dir():
            raise UsageError(f"{study} is no study on this machine (it has no folder {rows.ROWS}/)")
        try:
            done = rows.join(folder, change)
        except OSError as error:
            raise UsageError(
                f"{folder} was not rewritten ({error.strerror or error}); every row is still there"
            ) from None
        for path, why in sorted(done.left.items()):
            print(f"warning: {path} stays: it {why}", file=sys.stderr)
        print(f"{folder}: {done.rows} rows {done_to_rows}, from {done.removed} files")

    return cli.exit_status(body)


if __name__ == "__main__":
    sys.exit(main())

"""Computes the summary of each row anew: `python -m analysis.restat [results/main]`.

A row holds its headline numbers as the modescope that measured it computed them. Readers compute
them anew where formulas have changed since; this stores them, for pandas, DuckDB and others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from modescope.analysis import cli
from modescope.analysis.load import with_summary
from modescope.bench.records import joining
from modescope.bench.records.errors import UsageError
from modescope.bench.records.rows import ROWS


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = cli.parser("analysis.restat", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter

    def body() -> None:
        study = parser.read(arguments).study
        folder = study / ROWS
        if not isinstance(folder, Path) or not folder.is_dir():
            raise UsageError(f"{study} is no study on this machine (it has no folder {ROWS}/)")
        try:
            done = joining.join(folder, with_summary)
        except OSError as error:
            raise UsageError(
                f"{folder} was not rewritten ({error.strerror or error}); every row is still there"
            ) from None
        for path, why in sorted(done.left.items()):
            print(f"warning: {path} stays: it {why}", file=sys.stderr)
        print(f"{folder}: {done.joined} rows summarised, and joined from {done.removed} files")

    return cli.exit_status(body)


if __name__ == "__main__":
    sys.exit(main())

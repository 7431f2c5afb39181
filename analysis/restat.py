"""Computes the summary of each row anew: `modescope restat [results/main]`.

A row's summary (its headline numbers) is stored by the modescope that measured it. If formulas have
changed since, modescope's other programs compute the summary anew as they read the row. This
program stores the new summary, for pandas, DuckDB and others.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from modescope.analysis import cli, compact

if __name__ == "__main__":
    cli.check(cli.parser("analysis.restat", __doc__))

from modescope.analysis.load import with_summary


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = cli.parser("analysis.restat", __doc__)
    return compact.rewrite(parser, arguments, with_summary, "summarised")


if __name__ == "__main__":
    sys.exit(main())

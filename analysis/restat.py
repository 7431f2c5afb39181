"""Computes the summary of each row anew: `python -m analysis.restat [results/main]`.

A row holds its headline numbers as the modescope that measured it computed them. Readers compute
them anew where formulas have changed since; this stores them, for pandas, DuckDB and others.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from modescope.analysis import cli, compact
from modescope.analysis.load import with_summary


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = cli.parser("analysis.restat", __doc__)
    return compact.rewrite(parser, arguments, with_summary, "summarised")


if __name__ == "__main__":
    sys.exit(main())

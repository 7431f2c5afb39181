"""Writes a study's report: `modescope report [results/main] [--calls N] [...]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from modescope.analysis import cli, where
from modescope.analysis.recommend import constraints


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line: prints the report's path and returns the exit status."""
    parser = cli.parser("analysis.report", __doc__)
    where.add_option(parser)
    constraints.add_options(parser)

    def body() -> None:
        options = parser.parse_args(arguments)
        wishes = constraints.wishes(options)
        from modescope.analysis.report import report  # imports pandas, which takes a second

        print(report.write(options.study, wishes, options.where))

    return cli.exit_status(body)


if __name__ == "__main__":
    sys.exit(main())

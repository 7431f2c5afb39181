"""Compares two studies: `modescope diff OLD NEW [--gate ...]`.

Exit status: 0 nothing that counts became worse; 1 something did; 2 the arguments are wrong, the
studies are not comparable, or nothing is compared; 3 undecided (with --strict).
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from modescope.analysis import cli, where
from modescope.analysis.compare import differences, exporters, gate
from modescope.analysis.compare.exporters import FILES
from modescope.analysis.compare.gate import NOT_COMPARED, UNDECIDED, Request, StudyComparison
from modescope.analysis.load import located
from modescope.bench.records.errors import UsageError

SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable with the file that GitHub shows as the summary of a step."""

SKIP = 125
"""The exit status by which `git bisect run` learns that a commit cannot be judged."""


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = cli.Parser("analysis.compare", __doc__)
    for name, place in (("old", "earlier"), ("new", "later")):
        parser.add_argument(
            name, metavar=name.upper(), type=located, help=f"folder or address of the {place} study"
        )
    parser.add_argument(
        "--gate", metavar="NAMES", action="extend", type=cli.names(gate.GATES),
        help=f"what fails, of {', '.join(gate.GATES)} (default: exact; with speedup,latency if "
        "versus measured both sides in turns)",
    )  # fmt: skip
    for name, default, what in (
        ("--margin", "1%", "time against eager"),
        ("--latency-margin", "2%", "latency"),
    ):
        parser.add_argument(
            name, metavar="P", type=cli.percentage, default=default,
            help=f"change of {what} that nobody minds (default: {default}%)",
        )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="status 3 if timings are undecided")
    parser.add_argument(
        "--bisect", action="store_true", help="for git bisect run: status 125 in place of 2 and 3"
    )
    differences.add_option(parser)
    where.add_option(parser)
    for name, (_, what) in FILES.items():
        parser.add_argument(f"--{name}", metavar="FILE", type=Path, help=f"write {what}")
    parser.add_argument(
        "--github", action="store_true", help="annotations, and the summary of the step"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    typed = sys.argv[1:] if arguments is None else arguments
    status = [NOT_COMPARED]

    def body() -> None:
        options = _options(typed)
        request = Request(
            options.old, options.new, options.gate, options.margin, options.latency_margin,
            options.where, options.allow, options.strict,
        )  # fmt: skip
        try:
            comparison = gate.compare(request)
        except UsageError as error:  # the reason goes to every output, too
            comparison = StudyComparison(request, NOT_COMPARED, str(error))
        status[0] = comparison.status  # holds even if the reader of the output stops reading
        try:
            _write(comparison, options)
        finally:
            _print(comparison, options)

    try:
        failed = cli.exit_status(body)
    except Exception:  # Python's own status for it would be 1, a regression
        traceback.print_exc()
        failed = NOT_COMPARED
    answer = failed or status[0]
    return SKIP if "--bisect" in typed and answer in (NOT_COMPARED, UNDECIDED) else answer


def check(options: Sequence[str]) -> None:
    """Raises UsageError for a mistake in `options`, a command line without OLD and NEW.

    So a program that measures the two studies first can reject the options before that.
    """
    _options(["OLD", "NEW", *options])


def _print(comparison: StudyComparison, options: argparse.Namespace) -> None:
    if options.github:
        print(exporters.github(comparison))
    if comparison.status == NOT_COMPARED:
        print(f"error: {comparison.sentence}", file=sys.stderr)
    else:
        print(exporters.terminal(comparison))


def _write(comparison: StudyComparison, options: argparse.Namespace) -> None:
    option = "--github"
    try:
        if options.github and (summary := os.environ.get(SUMMARY)):
            with open(summary, "a", encoding="utf-8") as file:
                file.write(f"\n{exporters.markdown(comparison)}\n")
        for name, (text, _) in FILES.items():
            if path := getattr(options, name):
                option = f"--{name} {path}"
                path.write_text(text(comparison), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option} cannot be written: {error.strerror or error}") from None

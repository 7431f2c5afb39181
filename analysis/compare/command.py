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
from typing import TYPE_CHECKING

from modescope.analysis import cli
from modescope.analysis.compare import arguments
from modescope.analysis.compare.arguments import FILES, NOT_COMPARED, UNDECIDED
from modescope.bench.records.errors import UsageError

if TYPE_CHECKING:
    from modescope.analysis.compare.gate import StudyComparison

SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable with the file that GitHub shows as the summary of a step."""

SKIP = 125
"""The exit status by which `git bisect run` learns that a commit cannot be judged."""


def _options(typed: Sequence[str]) -> argparse.Namespace:
    return arguments.compare(__doc__).parse_args(typed)


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line `words` and returns the exit status."""
    typed = sys.argv[1:] if words is None else words
    status = [NOT_COMPARED]

    def body() -> None:
        options = _options(typed)
        from modescope.analysis.compare import gate  # imports pandas, which takes a second

        request = gate.Request(
            options.old, options.new, options.gate, options.margin, options.latency_margin,
            options.where, options.allow, options.strict,
        )  # fmt: skip
        try:
            comparison = gate.compare(request)
        except UsageError as error:  # the reason goes to every output, too
            comparison = gate.StudyComparison(request, NOT_COMPARED, str(error))
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
    from modescope.analysis.compare import exporters

    if options.github:
        print(exporters.github(comparison))
    if comparison.status == NOT_COMPARED:
        print(f"error: {comparison.sentence}", file=sys.stderr)
    else:
        print(exporters.terminal(comparison))


def _write(comparison: StudyComparison, options: argparse.Namespace) -> None:
    from modescope.analysis.compare import exporters

    option = "--github"
    try:
        if options.github and (summary := os.environ.get(SUMMARY)):
            with open(summary, "a", encoding="utf-8") as file:
                file.write(f"\n{exporters.markdown(comparison)}\n")
        for name, (function, _) in FILES.items():
            if path := getattr(options, name):
                option = f"--{name} {path}"
                text = getattr(exporters, function)(comparison)
                path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option} cannot be written: {error.strerror or error}") from None

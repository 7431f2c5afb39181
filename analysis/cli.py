"""Shared by the command lines of this package."""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pandas as pd

from modescope.analysis.filters.selection import Selection
from modescope.analysis.filters.syntax import EXAMPLE
from modescope.analysis.load.remote import Folder, located
from modescope.analysis.works.derived import Table
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
from modescope.bench.records.progress import replace_unprintable

EXIT_USAGE = 2
_PREFIXES = ("not", "~", "!", "-")  # incomplete alone
_WORD = re.compile(r"\S+")


class Parser(argparse.ArgumentParser):
    """Reads the options of one study's command line; a mistake is a UsageError of one sentence."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError, which `exit_status` prints."""
        if message == "argument --where: expected one argument":
            message += ", in single quotes; one that begins with - needs --where='...'"
        raise UsageError(f"{message}; {self.prog} --help lists the options")

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """The options; UsageError for surplus arguments."""
        known, surplus = self.parse_known_args(arguments)
        self.check_surplus(known, surplus, [known.study])
        return known

    def check_surplus(
        self, known: argparse.Namespace, surplus: Sequence[str], studies: Sequence[Folder]
    ) -> None:
        """UsageError if any argument was not understood, beside these that were."""
        options = [one for one in surplus if one.startswith("-")]
        if options:
            self.error(f"unknown option {options[0].partition('=')[0]}")
        expression = getattr(known, "where", None)
        if expression in _PREFIXES or (surplus and _WORD.fullmatch(expression or "")):
            raise UsageError(
                f"--where received only {expression}, as the shell splits words at spaces; put "
                f"the whole expression in single quotes: {EXAMPLE}"
            )
        if surplus:
            named = ", ".join(map(str, (*studies, *surplus)))
            wanted, one = ("one study", studies[0]) if len(studies) == 1 else ("two studies", None)
            again = f"; run {self.prog} {one}, then the same for each other" if one else ""
            count = len(studies) + len(surplus)
            raise UsageError(f"expected {wanted}, got {count} ({named}){again}")


def parser(module: str, doc: str | None, kind: type[Parser] = Parser) -> Parser:
    """A parser of the class `kind` with the argument for the study's folder."""
    result = kind(prog=program(module), description=doc)
    result.add_argument(
        "study", nargs="?", type=located, default=Path("results/main"),
        help="folder of a study, or an address of one such as s3://bucket/results/main (default: "
        "%(default)s)",
    )  # fmt: skip
    return result


def add_where(parser: argparse.ArgumentParser) -> None:
    """Adds --where, which chooses rows."""
    parser.add_argument(
        "--where", metavar="EXPRESSION",
        help="keep only rows that match; names are columns (results/README.md), text is in "
        "double quotes: 'mode == \"compile\" and speedup > 1.1', "
        "'\"contended\" in flags', 'compile != \"none\" and graph_breaks > 0', "
        "'error > 10 * baseline_error', 'speedup is null'",
    )  # fmt: skip


def where(table: pd.DataFrame | Table, expression: str) -> Selection:
    """The rows of `table` that match `expression` (`filters.selection.select`).

    Prints notes on its names and values to stderr.
    """
    found = table if isinstance(table, Table) else Table(table, {}, len(table))
    selection = found.where(expression)
    for note in selection.notes:
        print(f"note: {note}", file=sys.stderr)
    return selection


def exit_status(body: Callable[[], None]) -> int:
    """Runs `body`; a UsageError becomes one line on stderr and status 2."""
    logging.basicConfig(format="warning: %(message)s")
    replace_unprintable()
    try:
        body()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:  # `... | head` stops reading
        sys.stderr.close()  # else the interpreter prints an error at exit
    return 0

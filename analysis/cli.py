"""What the command lines of this package share."""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pandas as pd

from analysis.filters.selection import Selection, select
from analysis.filters.syntax import EXAMPLE
from analysis.metrics import derive
from analysis.rows import latest
from analysis.study import read
from bench.records import UsageError

EXIT_USAGE = 2
_PREFIXES = ("not", "~", "!", "-")  # mean nothing without what follows
_WORD = re.compile(r"\S+")


class Parser(argparse.ArgumentParser):
    """Reads the options of one study's command line; a mistake is a UsageError of one sentence."""

    def error(self, message: str) -> NoReturn:
        """Raises what `exit_status` prints."""
        if message == "argument --where: expected one argument":
            message += ", in single quotes; one that begins with - needs --where='...'"
        raise UsageError(f"{message}; {self.prog} --help shows what is possible")

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """The options; UsageError where something is left over."""
        known, left_over = self.parse_known_args(arguments)
        options = [one for one in left_over if one.startswith("-")]
        if options:
            self.error(f"{options[0].partition('=')[0]} is no option here")
        expression = getattr(known, "where", None)
        if expression in _PREFIXES or (left_over and _WORD.fullmatch(expression or "")):
            raise UsageError(
                f"--where was given {expression} alone, as the shell parts words at spaces; put "
                f"the whole expression in single quotes: {EXAMPLE}"
            )
        if left_over:
            named = ", ".join(map(str, (known.study, *left_over)))
            raise UsageError(
                f"one study at a time, and {len(left_over) + 1} are named ({named}); run "
                f"{self.prog} {known.study}, then the same for each other"
            )
        return known


def parser(module: str, doc: str | None) -> Parser:
    """A parser that knows the study's folder."""
    result = Parser(prog=f"python -m {module}", description=doc)
    result.add_argument(
        "study", nargs="?", type=Path, default=Path("results/main"),
        help="folder of a study (default: %(default)s)",
    )  # fmt: skip
    return result


def study(folder: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """The derived table of a study, and why each file that is left out is.

    UsageError where it holds no run.
    """
    runs = read(folder)
    if runs.table.empty:
        raise UsageError(
            f"no run could be read in {folder}/runs; measure one with `python run.py study=NAME`"
        )
    return derive(latest(runs.table)), runs.left_out


def add_where(parser: argparse.ArgumentParser) -> None:
    """Adds --where, which chooses rows."""
    parser.add_argument(
        "--where", metavar="EXPRESSION",
        help="keep the rows for which this holds; names are columns (results/README.md), text "
        "stands in double quotes: 'mode == \"compile\" and speedup > 1.1', "
        "'\"contended\" in flags', 'compile != \"none\" and graph_breaks > 0', "
        "'error > 10 * baseline_error', 'speedup is null'",
    )  # fmt: skip


def where(rows: pd.DataFrame, expression: str) -> Selection:
    """The rows for which `expression` holds (`filters.selection.select`).

    What a reader should know of its names and values is a line on stderr each.
    """
    selection = select(rows, expression)
    for note in selection.notes:
        print(f"note: {note}", file=sys.stderr)
    return selection


def exit_status(body: Callable[[], None]) -> int:
    """Runs `body`; a mistake of the user's is one line on stderr and status 2."""
    logging.basicConfig(format="warning: %(message)s")
    try:
        body()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:  # `... | head` has seen enough
        sys.stderr.close()  # else the interpreter complains while it exits
    return 0

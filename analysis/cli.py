"""What the command lines of this package share."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from analysis.metrics import derive
from analysis.rows import latest
from analysis.study import read
from bench.records import UsageError

EXIT_USAGE = 2


def parser(module: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser that knows the study's folder."""
    result = argparse.ArgumentParser(prog=f"python -m {module}", description=doc)
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
    parser.add_argument("--where", metavar="EXPRESSION", help="keep rows for which this holds")


def where(rows: pd.DataFrame, expression: str) -> pd.DataFrame:
    """The rows for which `expression` holds (pandas' `DataFrame.query`)."""
    try:
        kept = rows.query(expression)
    except Exception as error:  # a parser's, a lookup's or a comparison's: all the user's doing
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UsageError(
            f"--where {expression!r}: {reason}; compare columns of the table, for example "
            "--where 'mode == \"compile\" and speedup > 1.1'"
        ) from None
    if not isinstance(kept, pd.DataFrame):
        raise UsageError(f"--where {expression!r} selects no rows; write a comparison of columns")
    return kept


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

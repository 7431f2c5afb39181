"""Shared by the command lines of `analysis`: the parser, types of options, the exit status."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from modescope.analysis import where
from modescope.analysis.folders import located
from modescope.analysis.recommend import constraints
from modescope.bench.records.errors import UsageError, replace_unprintable
from modescope.bench.records.paths import program


class Parser(argparse.ArgumentParser):
    """Parses a command line. A mistake raises UsageError with one sentence."""

    def __init__(self, module: str, doc: str | None) -> None:
        super().__init__(
            prog=program(module),
            description=doc,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raises UsageError, which `exit_status` prints."""
        raise UsageError(f"{message}; {self.prog} --help lists the options")


def parser(module: str, doc: str | None) -> Parser:
    """Returns a Parser for the program `module` with one argument, the folder of a study."""
    result = Parser(module, doc)
    result.add_argument(
        "study", nargs="?", type=located, default=Path("results/main"),
        help="folder of a study, or an address of one such as s3://bucket/results/main (default: "
        "%(default)s)",
    )  # fmt: skip
    return result


def check(parser: Parser) -> None:
    """Reads the command line of this process; ends the process after a mistake, and after --help.

    A program does so before it imports pandas, which takes a second.
    """
    if status := exit_status(parser.parse_args):
        sys.exit(status)


def table(doc: str | None) -> Parser:
    """Returns the parser of `analysis.table`."""
    result = parser("analysis.table", doc)
    result.add_argument(
        "--csv", action="store_true", help="every column (results/README.md), full precision"
    )
    result.add_argument(
        "--against", metavar="MODE",
        help="compare with this mode instead of the baseline: inference_mode, or with a precision "
        "'compile bf16'; --csv adds its columns (against_...)",
    )  # fmt: skip
    where.add_option(result)
    constraints.add_options(result)
    return result


def why(doc: str | None) -> Parser:
    """Returns the parser of `analysis.why`."""
    result = parser("analysis.why", doc)
    where.add_option(result)
    return result


def names(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    """Returns an option type that splits `host,budget` into names, which must be in `allowed`."""

    def read(text: str) -> list[str]:
        given = [name.strip() for name in text.split(",")]
        for name in given:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name!r}: allowed are {', '.join(allowed)}")
        return given

    return read


def percentage(text: str) -> float:
    """Parses an option from 0 % to below 100 %: `1%` becomes 0.01."""
    with suppress(ValueError):
        share = float(text.removesuffix("%")) / 100
        if text.endswith("%") and 0 <= share < 1:
            return share
    raise argparse.ArgumentTypeError(f"{text!r}: must be a percentage below 100 %, as in 2%")


def exit_status(body: Callable[[], object]) -> int:
    """Runs `body` and returns the exit status: 2 after a UsageError, which is printed, else 0."""
    logging.basicConfig(format="warning: %(message)s")
    replace_unprintable()
    try:
        body()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `... | head` stops reading
        sys.stderr.close()  # else the interpreter prints an error at exit
    return 0

"""Shared by the command lines of this package."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from modescope.analysis.load import Folder, located
from modescope.analysis.where import EXAMPLE
from modescope.bench.records.errors import UsageError, replace_unprintable
from modescope.bench.records.paths import program

EXIT_USAGE = 2


class Parser(argparse.ArgumentParser):
    """Reads the options of one study's command line; a mistake is a UsageError of one sentence."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError, which `exit_status` prints."""
        if message == "argument --where: expected one argument":
            message += f", in quotes: {EXAMPLE}"
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
        if surplus and getattr(known, "where", None):
            raise UsageError(
                f"--where received only {known.where}, as the shell splits words at spaces; put "
                f"the whole condition in quotes: {EXAMPLE}"
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

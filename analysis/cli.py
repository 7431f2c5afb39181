"""What the command lines of this package share: the parser, types of options, the exit status."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from modescope.analysis.load import located
from modescope.bench.records.errors import UsageError, replace_unprintable
from modescope.bench.records.paths import program


class Parser(argparse.ArgumentParser):
    """Reads a command line; a mistake is a UsageError of one sentence."""

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
    """A Parser for the program `module`, which takes the folder of a study."""
    result = Parser(module, doc)
    result.add_argument(
        "study", nargs="?", type=located, default=Path("results/main"),
        help="folder of a study, or an address of one such as s3://bucket/results/main (default: "
        "%(default)s)",
    )  # fmt: skip
    return result


def names(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    """A type of an option: splits `host,budget` into names, which must be in `allowed`."""

    def read(text: str) -> list[str]:
        given = [name.strip() for name in text.split(",")]
        for name in given:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name!r}: allowed are {', '.join(allowed)}")
        return given

    return read


def percentage(text: str) -> float:
    """A type of an option: `1%` becomes 0.01. Refuses what is not from 0 % to below 100 %."""
    with suppress(ValueError):
        share = float(text.removesuffix("%")) / 100
        if text.endswith("%") and 0 <= share < 1:
            return share
    raise argparse.ArgumentTypeError(f"{text!r}: must be a percentage below 100 %, as in 2%")


def exit_status(body: Callable[[], None]) -> int:
    """Runs `body`; a UsageError becomes one line on stderr and status 2."""
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

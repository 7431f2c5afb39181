"""What the command lines of tools beside run.py share: values, folders and complaints."""

from __future__ import annotations

import argparse
import functools
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from bench.cores import usable_cores
from bench.records import UsageError

EXIT_USAGE = 2
INTERRUPTED = 128 + signal.SIGINT

Main = Callable[[Sequence[str]], int]
"""Arguments to exit status."""


def command(main: Main) -> Main:
    """`main` that answers a UsageError by a line on stderr and status 2, Ctrl-C by one and 130."""

    @functools.wraps(main)
    def answering(words: Sequence[str]) -> int:
        try:
            return main(words)
        except UsageError as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_USAGE
        except KeyboardInterrupt:
            print("stopped")
            return INTERRUPTED

    return answering


class Parser(argparse.ArgumentParser):
    """Complains in one sentence, as an exception."""

    def __init__(self, program: str, description: str | None) -> None:
        super().__init__(
            prog=program,
            description=description,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(f"{message}; {self.prog} --help says what is allowed")


def count(text: str) -> int:
    """A whole number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of 0 or more")
    return int(text)


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    """A positive, finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def check_threads(threads: int) -> None:
    """Raises UsageError where there are fewer cores than threads."""
    cores = usable_cores()
    if threads > cores:
        raise UsageError(f"--threads {threads}: this process may use {cores} cores")


def check_folder(folder: Path) -> None:
    """Makes the folder; raises UsageError where it cannot be made or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--results-dir: {folder}: {error.strerror}; name another") from error
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--results-dir: {folder} cannot be written; name another")

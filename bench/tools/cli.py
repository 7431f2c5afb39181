"""Shared by the command lines of the tools: folders and error messages."""

from __future__ import annotations

import argparse
import functools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from modescope.bench.records.errors import UsageError, replace_unprintable

EXIT_USAGE = 2
INTERRUPTED = 128 + signal.SIGINT

Main = Callable[[Sequence[str]], int]
"""Arguments -> exit status."""


def command(main: Main) -> Main:
    """`main`, with a UsageError as a line on stderr and status 2, and Ctrl-C as status 130."""

    @functools.wraps(main)
    def guarded(words: Sequence[str]) -> int:
        replace_unprintable()
        try:
            return main(words)
        except UsageError as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_USAGE
        except KeyboardInterrupt:
            print("stopped")
            return INTERRUPTED

    return guarded


class ToolParser(argparse.ArgumentParser):
    """Reports a mistake as an exception with one sentence."""

    def __init__(self, program: str, description: str | None) -> None:
        super().__init__(
            prog=program,
            description=description,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(f"{message}; {self.prog} --help lists the options")


def check_folder(folder: Path) -> None:
    """Creates the folder; raises UsageError if it cannot be created or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--results-dir: {folder}: {error.strerror}; name another") from error
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--results-dir: {folder} cannot be written; name another")

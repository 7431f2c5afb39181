"""Argument parsing, error messages and exit statuses of selfcheck, claims and instructions."""

from __future__ import annotations

import argparse
import functools
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from modescope.bench.records.errors import UsageError, os_error_text, replace_unprintable

EXIT_USAGE = 2
INTERRUPTED = 128 + signal.SIGINT


def command(main: Callable[[Sequence[str]], int]) -> Callable[[Sequence[str]], int]:
    """Decorates `main`: UsageError and OSError are printed and give status 2, Ctrl-C gives 130."""

    @functools.wraps(main)
    def guarded(words: Sequence[str]) -> int:
        replace_unprintable()
        try:
            return main(words)
        except (UsageError, OSError) as error:
            message = os_error_text(error) if isinstance(error, OSError) else error
            print(f"error: {message}", file=sys.stderr)
            return EXIT_USAGE
        except KeyboardInterrupt:
            print("stopped")
            return INTERRUPTED

    return guarded


class ToolParser(argparse.ArgumentParser):
    """An argument parser that raises UsageError for wrong arguments, instead of exiting."""

    def __init__(self, program: str, description: str | None) -> None:
        super().__init__(
            prog=program,
            description=description,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raises UsageError with argparse's message."""
        raise UsageError(f"{message}; {self.prog} --help lists the options")

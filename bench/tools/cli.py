"""Shared by the command lines of the tools: error messages and exit statuses."""

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
    """`main`, with a UsageError or OSError as a line and status 2, and Ctrl-C as status 130."""

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
    """Reports a mistake as a UsageError of one sentence."""

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

"""The user's constraints on a recommendation: --calls, --starts and --memory-limit."""

from __future__ import annotations

import argparse
import math
import re
from contextlib import suppress
from dataclasses import dataclass

from modescope.bench.records.errors import UsageError

_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:([KMGT])(I?))?B\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Wishes:
    """The user's constraints on a recommendation; None stands for no constraint.

    `calls`: the number of further calls over which the time of the first call is spread.
    `starts`: the number of processes that start per filled cache, and make `calls` calls after
    their first; `calls` is then known. What they start with is part of the recommendation.
    `memory_limit_bytes`: the most memory that a mode may need in addition to an empty process.
    """

    calls: float | None = None
    memory_limit_bytes: int | None = None
    starts: int | None = None


ANYTHING = Wishes()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options --calls, --starts and --memory-limit to `parser`."""
    parser.add_argument(
        "--calls", metavar="N", type=calls,
        help="include the first call in the recommendation, spread over N further calls",
    )  # fmt: skip
    parser.add_argument(
        "--starts", metavar="N", type=starts,
        help="recommend for N processes per filled compiler cache or saved code, which each start "
        "and make --calls calls; needs rows that were measured with starts",
    )  # fmt: skip
    parser.add_argument(
        "--memory-limit", metavar="SIZE", type=size,
        help="recommend nothing that needs more: a number with B, KB, MB, GB, TB (steps of 1000) "
        "or KiB, MiB, GiB, TiB (steps of 1024), for example 8GiB",
    )  # fmt: skip


def wishes(options: argparse.Namespace) -> Wishes:
    """Returns the constraints in a parsed command line.

    Raises UsageError if it has --starts without --calls.
    """
    if options.starts is not None and options.calls is None:
        raise UsageError(
            f"--starts {options.starts} needs --calls, the number of calls of each process, such "
            "as --calls 10000"
        )
    return Wishes(options.calls, options.memory_limit, options.starts)


def calls(text: str) -> float:
    """Parses a number of calls, such as `10000`, `10_000` or `1e6`.

    Raises ArgumentTypeError unless the number is finite and at least 1.
    """
    with suppress(ValueError):
        if 1 <= (number := float(text)) < math.inf:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on, such as 10000 or 1e6")


def starts(text: str) -> int:
    """Parses a number of processes; raises ArgumentTypeError unless it is whole, and at least 1."""
    if not (number := calls(text)).is_integer():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, such as 20")
    return int(number)


def size(text: str) -> int:
    """Parses a size in bytes, such as `8GB`, `8 GiB`, `1.5gib` or `1000B`.

    Raises ArgumentTypeError if the size has no unit or is below 1 byte.
    """
    match = _SIZE.fullmatch(text)
    number, letter, binary = match.groups() if match else ("0", None, None)
    power = " KMGT".index((letter or " ").upper())
    size_bytes = float(number) * (1024 if binary else 1000) ** power
    if not 1 <= size_bytes < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 8GB or 8GiB")
    return int(size_bytes)

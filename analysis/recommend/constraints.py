"""The user's constraints on a recommendation: --calls and --memory-limit."""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass

from modescope.bench.records.errors import UsageError

_LETTERS = "KMGT"
UNITS = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate(_LETTERS, start=1)},
    **{f"{letter}IB": 1024**power for power, letter in enumerate(_LETTERS, start=1)},
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]+)\s*")


@dataclass(frozen=True)
class Wishes:
    """`calls`: after the first; `memory_limit_bytes`: above an empty process. None: no limit."""

    calls: float | None = None
    memory_limit_bytes: int | None = None


ANYTHING = Wishes()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds --calls and --memory-limit."""
    parser.add_argument(
        "--calls", metavar="N",
        help="include the first call in the recommendation, spread over N further calls",
    )  # fmt: skip
    parser.add_argument(
        "--memory-limit", metavar="SIZE",
        help="recommend nothing that needs more: a number with B, KB, MB, GB, TB (steps of 1000) "
        "or KiB, MiB, GiB, TiB (steps of 1024), for example 8GiB",
    )  # fmt: skip


def wishes(options: argparse.Namespace) -> Wishes:
    """The constraints of a parsed command line; UsageError for an invalid one."""
    number, limit = options.calls, options.memory_limit
    return Wishes(
        None if number is None else calls(number), None if limit is None else size_bytes(limit)
    )


def calls(text: str) -> float:
    """`10000`, `10_000`, `1e6`: a finite number of at least 1."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 1 <= number < math.inf:
        raise UsageError(f"--calls {text}: must be a number of at least 1, for example 10000")
    return number


def size_bytes(text: str) -> int:
    """`8GB`, `8 GiB`, `1.5gib` or `1000000B`, as bytes; UsageError without a unit."""
    match = _SIZE.fullmatch(text)
    size = float(match[1]) * UNITS.get(match[2].upper(), 0) if match else 0
    if not 1 <= size < math.inf:
        raise UsageError(
            f"--memory-limit {text}: must be a number above 0 with B, KB, MB, GB, TB (steps of "
            "1000), KiB, MiB, GiB or TiB (steps of 1024), for example 8GiB"
        )
    return int(size)

"""What a reader says about the use to be made of a model: how many calls, how much memory."""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass

from bench.records import UsageError

_UNITS = {"B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True)
class Wishes:
    """`calls`: after the first one; `memory_limit_bytes`: above an empty process. None: any."""

    calls: float | None = None
    memory_limit_bytes: int | None = None


ANYTHING = Wishes()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds --calls and --memory-limit."""
    parser.add_argument(
        "--calls", metavar="N",
        help="how many calls the first one is spread over, for the recommendation",
    )  # fmt: skip
    parser.add_argument(
        "--memory-limit", metavar="SIZE",
        help="recommend nothing that needs more, for example 8GiB",
    )  # fmt: skip


def wishes(asked: argparse.Namespace) -> Wishes:
    """Those of a parsed command line; UsageError where one cannot be."""
    limit = asked.memory_limit
    return Wishes(
        None if asked.calls is None else calls(asked.calls),
        None if limit is None else size_bytes(limit),
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
    """`8GiB`, `512 MiB`, `1.5gib`, `1000000B` or plain bytes, as bytes."""
    found = _SIZE.fullmatch(text)
    unit = _UNITS.get((found[2] or "B").upper()) if found else None
    size = float(found[1]) * unit if found and unit else 0.0
    if not 1 <= size < math.inf:
        raise UsageError(
            f"--memory-limit {text}: must be a number above 0 with B, KiB, MiB, GiB or TiB, for "
            "example 8GiB (of 1024 MiB each)"
        )
    return int(size)

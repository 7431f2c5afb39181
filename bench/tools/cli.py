"""Arguments, exit statuses and result files of the tools selfcheck, claims and instructions.

A page and its rows say on which machine, when and by which command they were measured.
"""

from __future__ import annotations

import argparse
import functools
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from modescope.bench.records import parquet
from modescope.bench.records.environment import Processor, describe_machine
from modescope.bench.records.errors import UsageError, os_error_text, replace_unprintable
from modescope.bench.sweep import host
from modescope.bench.sweep.fingerprint import untested_warning

EXIT_USAGE = 2
INTERRUPTED = 128 + signal.SIGINT


def command(main: Callable[[Sequence[str]], int]) -> Callable[[Sequence[str]], int]:
    """Decorates `main` to print a UsageError or OSError and return 2, or 130 after Ctrl-C."""

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


@dataclass(frozen=True, kw_only=True)
class RunContext(Processor):
    """Machine, time and command of one run of a tool: columns that all rows of the run share."""

    started_at: str  # ISO 8601, UTC
    device: str  # cpu | cuda | cuda:<index>
    device_name: str | None
    threads: int
    power_limit_w: float | None
    torch_version: str | None
    python_version: str | None
    git_commit: str | None
    load_1min: float  # load average over the minute before the start
    command: str


def run_context(device: str, program: str, words: Sequence[str]) -> RunContext:
    """Returns the context of this run of `program` with the arguments `words`.

    `device` may be auto. Raises UsageError if there is no such device.
    """
    load_1min = os.getloadavg()[0]
    read = host.read(lambda phase, keep=None: None, device)
    known = asdict(read.environment) | {
        "started_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "device": read.device.type if device == "auto" else device,
        "threads": 1,  # of every tool
        "load_1min": load_1min,
        "command": f"{program} {shlex.join(words)}".strip(),
    }
    return RunContext(**{field.name: known[field.name] for field in fields(RunContext)})


def heading(context: RunContext) -> list[str]:
    """Returns the lines above a page's tables: machine, time and command."""
    where = describe_machine(context, context.device_name, context.threads)
    if context.power_limit_w is not None:
        where += f", power limit {context.power_limit_w:g} W"
    return [
        f"{where}, torch {context.torch_version}, Python {context.python_version}",
        *filter(None, [untested_warning(context.torch_version)]),
        f"{context.started_at[:16]}Z, load average of the minute before: {context.load_1min:.2f}",
        f"`{context.command}`",
    ]


def publish(folder: Path, context: RunContext, page: str, rows: Sequence[Any]) -> tuple[Path, Path]:
    """Writes `page` (Markdown) and `rows` (Parquet), named by the start time. Returns both paths.

    `rows` are dataclass instances, possibly of several classes. Every field of these classes is a
    column, null in rows of other classes. The fields of `context` are further columns. Raises
    OSError.
    """
    name = context.started_at.replace("-", "").replace(":", "")
    page_path, rows_path = folder / f"{name}.md", folder / f"{name}.parquet"
    page_path.write_text(page, encoding="utf-8")
    kinds = [*dict.fromkeys(map(type, rows)), RunContext]
    schema = pa.unify_schemas([parquet.schema_of(get_type_hints(kind)) for kind in kinds])
    records = [asdict(row) | asdict(context) for row in rows]
    pq.write_table(pa.Table.from_pylist(records, schema=schema), rows_path, compression="zstd")
    return page_path, rows_path

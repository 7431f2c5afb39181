"""Writes the page and the rows of a tool's run, with machine, time and command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from modescope.bench.records import parquet
from modescope.bench.records.environment import Processor, describe_machine
from modescope.bench.sweep import host
from modescope.bench.sweep.fingerprint import untested_warning


@dataclass(frozen=True, kw_only=True)
class RunContext(Processor):
    """Columns with the same values in all rows of one run of a tool: machine, time, command."""

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
    """Returns the lines above the tables: machine, time and command."""
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
    schema = pa.unify_schemas([parquet.schema_of(kind) for kind in kinds])
    records = [asdict(row) | asdict(context) for row in rows]
    pq.write_table(pa.Table.from_pylist(records, schema=schema), rows_path, compression="zstd")
    return page_path, rows_path

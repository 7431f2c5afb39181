"""Joins the files of a study's runs: `python -m analysis.compact [results/main]`.

Each run is a file of its own at first, and reading 100,000 of them takes half an hour. This joins
them to parts of up to 50,000 runs (compact/part-....parquet) and then removes the files in runs/.
All commands read both, so nothing else changes. It may be interrupted at any moment, and run while
a sweep measures: no run is lost, and the next call finishes the work.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from modescope.analysis import cli
from modescope.analysis.compact import lock
from modescope.analysis.compact.compaction import Outcome, compact
from modescope.analysis.format import numbers
from modescope.analysis.format.paragraphs import paragraph
from modescope.analysis.load.remote import RemotePath, located
from modescope.analysis.load.samples import warn
from modescope.bench.records.errors import UsageError
from modescope.bench.records.sources import COMPACT, RUNS


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = cli.parser("analysis.compact", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter

    def body() -> None:
        folder = located(parser.read(arguments).study)
        if isinstance(folder, RemotePath):
            raise UsageError(
                f"{folder} cannot be compacted, as only local studies can; compact the folder that "
                "it was copied from, and copy that again"
            )
        done = _done(folder)
        warn(folder, done.left)
        print("\n".join(paragraph(text(folder, done))))

    return cli.exit_status(body)


def _done(folder: Path) -> Outcome:
    try:
        return compact(folder, lambda: print(lock.WAITING, file=sys.stderr))
    except OSError as error:
        raise UsageError(
            f"{folder} was compacted in part only ({error.strerror or error}): every run is still "
            "there; it needs a folder that you may write to, and free space of twice the size of "
            f"{folder / COMPACT}"
        ) from None


def text(folder: Path, done: Outcome) -> str:
    """What was done, in one sentence each."""
    kept = f"; {numbers.counted(len(done.left), 'file stays', 'files stay')}" if done.left else ""
    if not done.runs and not done.merged and not done.removed:
        return f"nothing to compact: no run in {folder / RUNS} that is not in a part{kept}"
    told = [
        f"compacted {numbers.counted(done.runs, 'run', 'runs')}" if done.runs else "",
        f"merged {numbers.counted(done.merged, 'part', 'parts')}" if done.merged else "",
        f"removed {numbers.counted(done.removed, 'file', 'files')} whose run was in a part already"
        if done.removed
        else "",
    ]
    parts = numbers.counted(done.parts, "part", "parts")
    return f"{', '.join(filter(None, told))}; {folder / COMPACT} has {parts}{kept}"

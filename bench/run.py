"""Runs `modescope run`: reads its cases, measures them, and prints the results.

pandas and the code that measures a sweep take seconds to import. They are imported late, so that
the cases are read first and another process imports torch meanwhile.
"""

from __future__ import annotations

import gc
import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from modescope.bench.command_line import collect
from modescope.bench.records.errors import (
    UsageError,
    exit_status,
    os_error_text,
    replace_unprintable,
    terminate,
)
from modescope.bench.records.outcomes import Status
from modescope.bench.records.paths import program, runner
from modescope.bench.resolve import Request
from modescope.bench.sweep import early
from modescope.bench.sweep.prepare import start_torch

if TYPE_CHECKING:
    import pandas as pd

    from modescope.analysis.snapshot import Snapshot
    from modescope.bench.sweep.sweep import Submission


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command with the arguments `words` (None: sys.argv); returns the exit status.

    The status is 0 if all cases are ok or skipped, 1 if any is not, 2 after a mistake, and
    128 + n after signal n.
    """
    signal.signal(signal.SIGTERM, terminate)
    replace_unprintable()
    gc.disable()  # until something is measured: imports and settings make no garbage
    try:
        words = sys.argv[1:] if words is None else words
        with early.started(words):
            requests = collect(words)
        status = measure(requests) if requests else 0
        sys.stdout.flush()
        return status
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader closed the pipe, as `... | head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 128 + signal.SIGPIPE
    except OSError as error:
        print(f"error: {os_error_text(error)}; finished runs are kept", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print("stopped")
        return exit_status(stop)
    finally:
        gc.enable()


def measure(requests: Sequence[Request]) -> int:
    """Measures the cases without a reusable row, prints all rows; returns the exit status."""
    if requests[0].settings.cluster["engine"] == "none":
        start_torch(requests)
        if not requests[0].settings.dry_run:
            import_module("modescope.analysis.table")  # meanwhile torch is imported
    from modescope.bench.sweep import sweep

    submission = sweep.submit(requests)
    gc.enable()
    if submission is None:
        return 0
    study, run_ids = submission.study_folder, list[str]()
    status, said = 0, ""
    snapshot = None
    try:
        for run_id in submission.finished:
            run_ids.append(run_id)
        snapshot = confirm(submission, run_ids)
    except sweep.Incomplete as rest:
        status, said = 2 if rest.refused else 1, f"error: {rest}"
    except KeyboardInterrupt as stop:
        how = "detached" if submission.detaches else "stopped"
        status = exit_status(stop)
        said = f"{how} after {len(run_ids)} of {submission.runs}; run the sweep again to continue"
    if run_ids:
        snapshot = snapshot or read(submission, run_ids)
        status = max(status, show(study, run_ids, snapshot, requests[0]))
    if said:
        sys.stdout.flush()
        print(said, file=sys.stderr if said.startswith("error: ") else sys.stdout)
    return status


def confirm(submission: Submission, run_ids: Sequence[str]) -> Snapshot | None:
    """Measures once more the runs on which a recommendation of a sweep rests.

    With explain=best also those that are to be explained. Returns the study as it was read for
    that; None if it was not read, or has new rows since.
    """
    from modescope.analysis.recommend import decide

    if submission.confirm is None:
        return None
    snapshot = read(submission, run_ids)
    again = dict.fromkeys(decide.unconfirmed(snapshot.answers, run_ids), False)
    if submission.explains:
        again |= dict.fromkeys(decide.to_explain(snapshot.rows, run_ids), True)
    if not again:
        return snapshot
    submission.confirm(again)
    return None


def read(submission: Submission, run_ids: Sequence[str]) -> Snapshot:
    """Returns the study of `submission`, or these runs alone if their rows are in hand."""
    from modescope.analysis import load
    from modescope.analysis.snapshot import Snapshot

    if submission.in_hand.keys() >= {*run_ids}:
        return Snapshot(load.of_rows([submission.in_hand[run_id] for run_id in run_ids]))
    return Snapshot(load.read(submission.study_folder))


def show(study: Path, run_ids: Sequence[str], snapshot: Snapshot, request: Request) -> int:
    """Prints the rows of these runs and which mode to use; returns the exit status.

    `snapshot` has at least these runs of `study`; other runs are not printed. `request` is the
    first of the command. Several runs of a case (seeds, replicates) are one row; runs that went
    wrong are listed below the table.
    """
    from modescope.analysis import table
    from modescope.bench.records.rows import ROWS

    runs = snapshot.stored.table
    mine = runs[runs["run_id"].isin(run_ids)]
    alone = snapshot.of(run_ids)
    print("\n".join([table.summary(alone.rows, study), *table.not_shown(mine, alone.rows)]))
    for text in (table.node_warnings(alone.processes), table.why(alone.rows, study)):
        if text:
            print(text)
    if request.sweep:
        from modescope.analysis.report import report

        print(table.use(alone.answers))
        print(f"report   {report.write(study, snapshot=snapshot)}")
    print(f"results  {study / ROWS}")
    after = program("analysis.table" if request.sweep else "analysis.report", study)
    if not request.sweep and (proved := _proved(alone.rows)):
        print(f"smoke    {proved}")
        after = _every_mode(request)
    print(f"next     {after}")
    unread = set(run_ids) - set(mine["run_id"])
    return 0 if set(mine["status"]) <= {Status.OK, Status.SKIPPED} and not unread else 1


def _proved(rows: pd.DataFrame) -> str:
    """Returns what a smoke budget has shown of a case that is ok; empty for another one."""
    from modescope.analysis.format import numbers
    from modescope.analysis.rows import predicates
    from modescope.analysis.rows.values import as_rows

    row = next(iter(as_rows(rows)), None)
    if row is None or row["status"] != Status.OK or not predicates.is_smoke(row):
        return ""
    if why := predicates.unchecked(row):
        return f"it runs; its results are not checked: {why}"
    return f"it runs, and is right (relative error {numbers.scientific(row['error'])})"


def _every_mode(request: Request) -> str:
    """Returns the command that measures the model of `request` in every mode."""
    name = "training" if request.settings.phase == "train" else "modes"
    of_smoke = ("mode", "budget")
    words = request.overrides
    kept = [word for word in words if re.split(r"[.=]", word.lstrip("+~"))[0] not in of_smoke]
    target = f"model.target={request.settings.model.target}"
    if {"model=custom", target} <= {*kept}:
        kept[kept.index("model=custom")] = f"model={request.settings.model.target}"
        kept.remove(target)
    return shlex.join([*runner().split(), f"experiment={name}", *kept])

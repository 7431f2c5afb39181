"""Runs `python run.py`: reads its cases, measures them, and prints the results.

pandas and the code that measures a sweep take seconds to import. They are imported late, so that
the cases are read first and another process imports torch meanwhile.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from modescope.bench.command_line import collect
from modescope.bench.records.errors import (
    UsageError,
    exit_status,
    os_error_text,
    replace_unprintable,
    terminate,
)
from modescope.bench.records.paths import program
from modescope.bench.resolve import Request
from modescope.bench.sweep.prepare import start_torch


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command with the arguments `words` (None: sys.argv); returns the exit status.

    The status is 0 if all cases are ok or skipped, 1 if any is not, 2 after a mistake, and
    128 + n after signal n.
    """
    signal.signal(signal.SIGTERM, terminate)
    replace_unprintable()
    try:
        requests = collect(sys.argv[1:] if words is None else words)
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


def measure(requests: Sequence[Request]) -> int:
    """Measures the cases without a reusable row, prints all rows; returns the exit status."""
    if requests[0].settings.cluster["engine"] == "none":
        start_torch(requests)
    from modescope.bench.sweep import sweep

    submission = sweep.submit(requests)
    if submission is None:
        return 0
    study, run_ids = submission.study_folder, list[str]()
    status, said = 0, ""
    try:
        for run_id in submission.finished:
            run_ids.append(run_id)
        if submission.confirm is not None:
            submission.confirm(unconfirmed(study, run_ids))
    except sweep.Incomplete as rest:
        status, said = 2 if rest.refused else 1, f"error: {rest}"
    except KeyboardInterrupt as stop:
        how = "detached" if submission.detaches else "stopped"
        status = exit_status(stop)
        said = f"{how} after {len(run_ids)} of {submission.runs}; run the sweep again to continue"
    if run_ids:
        status = max(status, show(study, run_ids, requests[0].sweep))
    if said:
        sys.stdout.flush()
        print(said, file=sys.stderr if said.startswith("error: ") else sys.stdout)
    return status


def unconfirmed(study: Path, run_ids: Sequence[str]) -> list[str]:
    """Returns the run ids that a second process must confirm before a mode is recommended."""
    from modescope.analysis.derive import registry
    from modescope.analysis.recommend import decide

    return decide.unconfirmed(decide.recommend(registry.derived(study)), run_ids)


def show(study: Path, run_ids: Sequence[str], is_sweep: bool) -> int:
    """Prints the rows of these runs and which mode to use; returns the exit status.

    Other runs of the study are not printed. Several runs of a case (seeds, replicates) are one row;
    runs that went wrong are listed below the table.
    """
    from modescope.analysis import table
    from modescope.analysis.derive import registry, select
    from modescope.analysis.load import read
    from modescope.bench.records.rows import ROWS

    runs = read(study).table
    mine = runs[runs["run_id"].isin(run_ids)]
    latest = select.latest(runs, among=run_ids)
    derived = registry.derive(latest)
    print("\n".join([table.summary(derived, study), *table.not_shown(mine, derived)]))
    for text in (table.node_warnings(latest), table.why(derived, study)):
        if text:
            print(text)
    if is_sweep:
        from modescope.analysis.report import report

        print(table.use(derived))
        print(f"report   {report.write(study)}")
    print(f"results  {study / ROWS}")
    print(f"next     {program('analysis.table' if is_sweep else 'analysis.report', study)}")
    unread = set(run_ids) - set(mine["run_id"])
    return 0 if set(mine["status"]) <= {"ok", "skipped"} and not unread else 1

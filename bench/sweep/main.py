"""Runs `python run.py`: reads its cases, measures them, and prints the results."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from modescope.bench.command_line import collect
from modescope.bench.records.errors import UsageError, os_error_text, replace_unprintable
from modescope.bench.resolve import Request
from modescope.bench.sweep.prepare import start_torch

Show = Callable[[Path, Sequence[str], bool], int]
"""Prints runs (study's folder, run ids, whether they are a sweep); returns the exit status."""

Unconfirmed = Callable[[Path, Sequence[str]], Sequence[str]]
"""Of runs (study's folder, run ids), the ids to confirm before one of them is recommended."""


def main(show: Show, unconfirmed: Unconfirmed) -> int:
    """Runs the command in sys.argv; returns the exit status.

    0 if all cases are ok or skipped, 1 if any is not, 2 if nothing was measured, 128 + n after
    signal n.
    """
    signal.signal(signal.SIGTERM, terminate)
    replace_unprintable()
    try:
        requests = collect(sys.argv[1:])
        status = measure(requests, show, unconfirmed) if requests else 0
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


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, so that it ends a sweep as cleanly as Ctrl-C does."""


def terminate(signum: int, frame: object) -> None:
    """Signal handler for SIGTERM; raises Terminated."""
    raise Terminated


def exit_status(by: KeyboardInterrupt) -> int:
    """Exit status after SIGTERM or Ctrl-C: 128 plus the signal's number, as in shells."""
    return 128 + (signal.SIGTERM if isinstance(by, Terminated) else signal.SIGINT)


def measure(requests: Sequence[Request], show: Show, unconfirmed: Unconfirmed) -> int:
    """Measures the cases that have no reusable row, then shows all; returns the exit status."""
    if requests[0].settings.cluster["engine"] == "none":
        start_torch(requests)
    # The import takes a second, in which a process imports torch.
    from modescope.bench.sweep import sweep

    is_sweep = requests[0].sweep
    submission = sweep.submit(requests)
    if submission is None:
        return 0
    run_ids: list[str] = []
    status, said = 0, ""
    try:
        for run_id in submission.finished:
            run_ids.append(run_id)
        if submission.confirm is not None:
            submission.confirm(unconfirmed(submission.study_folder, run_ids))
    except sweep.Incomplete as rest:
        status, said = 2 if rest.refused else 1, f"error: {rest}"
    except KeyboardInterrupt as stop:
        how = "detached" if submission.detaches else "stopped"
        status = exit_status(stop)
        said = f"{how} after {len(run_ids)} of {submission.runs}; run the sweep again to continue"
    if run_ids:
        status = max(status, show(submission.study_folder, run_ids, is_sweep))
    if said:
        sys.stdout.flush()
        print(said, file=sys.stderr if said.startswith("error: ") else sys.stdout)
    return status

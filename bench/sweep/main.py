"""Runs a command: composes all its cases, measures them, shows them; sets the exit status."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modescope.bench.command_line import collect
from modescope.bench.records.errors import UsageError, os_error_text, replace_unprintable
from modescope.bench.resolve import Request
from modescope.bench.sweep.prepare import start_torch

if TYPE_CHECKING:
    from modescope.bench.sweep.sweep import Submission

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
PIPE_CLOSED = 128 + signal.SIGPIPE

Show = Callable[[Path, Sequence[str], bool], int]
"""Prints these runs of a study, measured by a sweep or not; returns the exit status."""

Unconfirmed = Callable[[Path, Sequence[str]], Sequence[str]]
"""Those of these runs of a study that have to be confirmed before one of them is recommended."""


def main(show: Show, unconfirmed: Unconfirmed) -> int:
    """Exit status: 0 all ok or skipped, 1 any other, 2 nothing measured, 128 + n by a signal."""
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
        return PIPE_CLOSED
    except OSError as error:
        print(f"error: {os_error_text(error)}; finished runs are kept", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print("stopped")
        return exit_status(stop)


class Terminated(KeyboardInterrupt):
    """SIGTERM: ends a sweep as cleanly as Ctrl-C does."""


def terminate(signum: int, frame: object) -> None:
    """Handles SIGTERM."""
    raise Terminated


def exit_status(by: KeyboardInterrupt) -> int:
    """Exit status after a signal: 128 and its number, as shells count."""
    return TERMINATED if isinstance(by, Terminated) else INTERRUPTED


def measure(requests: Sequence[Request], show: Show, unconfirmed: Unconfirmed) -> int:
    """Measures the cases without a reusable row, then shows the table and the files' places."""
    if requests[0].settings.cluster["engine"] == "none":
        start_torch(requests)
    # The import takes a second, in which a process imports torch.
    from modescope.bench.sweep import sweep

    is_sweep = requests[0].sweep
    submission = sweep.submit(requests)
    if submission is None:
        return 0
    run_ids: list[str] = []
    try:
        for run_id in submission.finished:
            run_ids.append(run_id)
        confirmed = _confirm(submission, unconfirmed, run_ids)
        return max(confirmed, show(submission.study_folder, run_ids, is_sweep))
    except sweep.Incomplete as rest:
        if run_ids:
            show(submission.study_folder, run_ids, is_sweep)
        sys.stdout.flush()
        print(f"error: {rest}", file=sys.stderr)
        return 2 if rest.refused else 1
    except KeyboardInterrupt as stop:
        if 0 < len(run_ids) < submission.runs:
            show(submission.study_folder, run_ids, is_sweep)
        how = "detached" if submission.detaches else "stopped"
        print(f"{how} after {len(run_ids)} of {submission.runs}; run the sweep again to continue")
        return exit_status(stop)


def _confirm(submission: Submission, unconfirmed: Unconfirmed, run_ids: Sequence[str]) -> int:
    """Measures once more what would be recommended; returns an exit status."""
    try:
        if submission.confirm is not None:
            submission.confirm(unconfirmed(submission.study_folder, run_ids))
    except OSError as error:
        print(f"error: not confirmed: {os_error_text(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print("stopped before the answer was confirmed; run the sweep again to continue")
        return exit_status(stop)
    return 0

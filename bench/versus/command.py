"""Measures two states in turns and compares them.

    python -m bench.versus old=git:main new=git:HEAD [--gate ...] -- -m mode=eager replicates=5

A state is the path of an interpreter, git:REV (a revision of the repository of the current folder)
or dir:PATH (a folder that holds your package). Options before -- are those of analysis.compare;
settings after it are those of run.py. Results go to the studies NAME-old and NAME-new (study=NAME;
without it main-old and main-new). The same command continues what was interrupted.

Exit status: that of analysis.compare; 2, too, if anything cannot be measured; 130 by Ctrl-C.
"""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from modescope.analysis.compare import command as comparing
from modescope.analysis.compare.rules.gate import NOT_COMPARED
from modescope.bench.command_line import collect
from modescope.bench.records.errors import UsageError, os_error_text
from modescope.bench.records.paths import program
from modescope.bench.records.progress import replace_unprintable
from modescope.bench.resolve import Request
from modescope.bench.sweep.main import exit_status, terminate
from modescope.bench.versus import arguments, measuring, sources
from modescope.bench.versus.arguments import HELP, Arguments
from modescope.bench.versus.processes import Process, started
from modescope.bench.versus.schedule import SIDES
from modescope.bench.versus.states import state
from modescope.bench.versus.worker import Prepared

FAILED = NOT_COMPARED


def main(words: Sequence[str]) -> int:
    """The command line; returns the exit status."""
    if any(word in HELP for word in words[: words.index("--") if "--" in words else None]):
        print(f"{__doc__}\nThe comparison's own options: {program('analysis.compare')} --help")
        return 0
    signal.signal(signal.SIGTERM, terminate)
    replace_unprintable()
    try:
        return _run(arguments.parse(words))
    except UsageError as error:
        print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
    except KeyboardInterrupt as stop:
        print("stopped; the same command continues")
        return exit_status(stop)
    except OSError as error:
        print(f"error: {os_error_text(error)}; finished runs are kept", file=sys.stderr)
    except Exception:  # Python's own status for it would be 1, a regression
        traceback.print_exc()
    return comparing.SKIP if "--bisect" in words else FAILED


def _run(asked: Arguments) -> int:
    requests = requests_of(asked)
    if not requests:  # --cfg job and the like
        return 0
    comparing.check(asked.options)
    folders = _measured(asked, requests)
    return comparing.main([*map(str, folders), *asked.options])


def requests_of(asked: Arguments) -> list[Request]:
    """The cases, composed once for both sides; UsageError for a mistake in the settings."""
    requests = collect([*asked.settings, f"study={asked.study}-{SIDES[-1]}"])
    if any(request.settings.cluster["engine"] != "none" for request in requests):
        raise UsageError("versus measures on this machine; leave cluster out")
    return requests


def of_side(request: Request, study: str, side: str) -> Request:
    """The request for the study of a side; it reuses earlier rows unless resume=false."""
    mine = f"{study}-{side}"
    resume = request.settings.resume is not False
    others = [word for word in request.overrides if not word.startswith("study=")]
    return replace(
        request,
        settings=replace(request.settings, study=mine, resume=resume),
        overrides=(*others, f"study={mine}"),
    )


def _measured(asked: Arguments, requests: Sequence[Request]) -> list[Path]:
    """Measures what is missing on both sides; returns the folders of their studies."""
    with ExitStack() as stack:
        states = [state(side, asked.states[side], stack) for side in SIDES]
        if any(one.source for one in states):
            sources.of_user(requests)  # a mistake shows before anything is started
        for one in states:
            if one.note:
                print(f"note: {one}: {one.note}")
        processes = {one.side: stack.enter_context(started(one)) for one in states}
        prepared = _prepared(processes, requests, asked.study)
        _check_refusals(processes, prepared, requests[0].sweep)
        old, new = (prepared[side] for side in SIDES)
        sitting = measuring.planned(old, new, requests[0].settings.order)
        print("\n".join(measuring.heading(processes, prepared)))
        for line in measuring.reasons(old, new):
            print(line)
        for _ in measuring.measured(sitting, processes, prepared):
            pass
    return [prepared[side].jobs[0].plan.study_folder for side in SIDES]


def _prepared(
    processes: Mapping[str, Process], requests: Sequence[Request], study: str
) -> dict[str, Prepared]:
    """What each side will measure; both find out at the same time, as nothing is timed yet."""
    theirs = {}
    for side, process in processes.items():
        mine = [of_side(request, study, side) for request in requests]
        theirs[side] = sources.of_user(requests) if process.state.source else []
        process.ask("prepare", mine, sources.distinct(theirs[side]))
    prepared = {}
    for side, process in processes.items():
        answer: Prepared = process.answer()
        sources.check(process.state, theirs[side], answer.origins)
        prepared[side] = measuring.of_state(answer, process.state)
    return prepared


def _check_refusals(
    processes: Mapping[str, Process], prepared: Mapping[str, Prepared], sweep: bool
) -> None:
    """UsageError if the only case cannot be measured; in a sweep, its row says so."""
    for side, process in processes.items():
        job = prepared[side].jobs[0]
        if job.refusal and not sweep:
            raise UsageError(f"{process.state}: mode={job.case.variant.mode.name}: {job.refusal}")

"""Measures two states of torch or of your code in turns, and compares them.

    modescope versus old=git:main new=git:HEAD [--gate ...] -- -m mode=eager replicates=5

A state is the path of an interpreter, git:REV (a revision of the repository of the current folder)
or dir:PATH (a folder that holds your package). Before -- come options of modescope diff, and
after -- settings of modescope run. With study=NAME, results go to the studies NAME-old and
NAME-new, else to main-old and main-new. The same command continues what was interrupted.

Exit status: as for modescope diff; also 2 if anything cannot be measured, and 130 after Ctrl-C.
"""

from __future__ import annotations

import random
import signal
import sys
import time
import traceback
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from modescope.analysis.compare import command as comparing
from modescope.analysis.compare.arguments import NOT_COMPARED
from modescope.bench.command_line import collect
from modescope.bench.records.errors import (
    UsageError,
    exit_status,
    os_error_text,
    replace_unprintable,
    terminate,
)
from modescope.bench.records.paths import program
from modescope.bench.records.rows import ROWS, join
from modescope.bench.resolve import Request
from modescope.bench.sweep.attempt import Place
from modescope.bench.sweep.fingerprint import untested_warning
from modescope.bench.sweep.prepare import Job
from modescope.bench.sweep.progress_bar import advance, progress_bar
from modescope.bench.versus.sides import SideProcess, Worker, start
from modescope.bench.versus.states import state

SIDES = ("old", "new")


def main(words: Sequence[str]) -> int:
    """Runs the command line `words`; returns the exit status."""
    if {"-h", "--help"} & {*words}:
        print(f"{__doc__}\nThe comparison's own options: {program('analysis.compare')} --help")
        return 0
    signal.signal(signal.SIGTERM, terminate)
    replace_unprintable()
    try:
        return _run(words)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt as stop:
        print("stopped; the same command continues")
        return exit_status(stop)
    except OSError as error:
        print(f"error: {os_error_text(error)}; finished runs are kept", file=sys.stderr)
    except Exception:  # Python's own status for it would be 1, a regression
        traceback.print_exc()
    return comparing.SKIP if "--bisect" in words else NOT_COMPARED


def _run(words: Sequence[str]) -> int:
    end = words.index("--") if "--" in words else 0
    options, typed = list(words[:end]), {}
    for side in SIDES:
        given = [word for word in options if word.startswith(f"{side}=")]
        if len(given) != 1:
            what = f"is given {len(given)} times" if given else "is missing"
            raise UsageError(f"{side}= {what} before --; type {_expected(words)}")
        options.remove(given[0])
        typed[side] = given[0].partition("=")[2]
    comparing.check(options)
    requests = collect(list(words[end + 1 :]))
    if not requests:  # --cfg job and the like
        return 0
    if requests[0].settings.cluster["engine"] != "none" or requests[0].settings.dry_run:
        raise UsageError("versus measures, and on this machine; leave out cluster and dry_run")
    return comparing.main([*map(str, _measure(typed, requests)), *options])


def _expected(words: Sequence[str]) -> str:
    """Returns the command that `words` may mean."""
    named = {side: word for word in words for side in SIDES if word.startswith(f"{side}=")}
    pairs = zip(["", *words], words, strict=False)
    plain = (
        word for before, word in pairs if "=" not in word and {before[:1], word[:1]}.isdisjoint("-")
    )
    sides = [named.get(side) or f"{side}={next(plain, 'STATE')}" for side in SIDES]
    return f"{program('bench.versus', *sides)} [options] -- [settings of a run]"


def _measure(typed: Mapping[str, str], requests: Sequence[Request]) -> list[Path]:
    """Measures the cases of `requests` on both sides (old, new); returns their studies' folders.

    `typed` maps each side to its state (what it measures) as it was typed. A pair is a process of
    each side for the same case and block (see `turns`). Pairs of an earlier run are reused; half a
    pair is measured again as a whole, because processes of different times did not alternate.
    """
    with ExitStack() as stack:
        states = [state(side, typed[side], stack) for side in SIDES]
        sides = {code_state.side: stack.enter_context(start(code_state)) for code_state in states}
        answers = [  # both at once, as nothing is timed yet
            side.ask(
                Worker.prepare, side.state, [_side_request(request, name) for request in requests]
            )
            for name, side in sides.items()
        ]
        (jobs, blocks), (others, other_blocks) = [answer() for answer in answers]
        if [job.case.case_id for job in jobs] != [job.case.case_id for job in others]:
            raise UsageError("old and new are different cases; set the device: device=cpu")
        folders = [of_side[0].plan.study_folder for of_side in (jobs, others)]
        machines = [of_side[0].environment for of_side in (jobs, others)]
        for code_state, machine, folder in zip(states, machines, folders, strict=True):
            versions = f"torch {machine.torch_version}, Python {machine.python_version}"
            print(f"{code_state.side}  {code_state.name}: {versions} → {folder}")
        for warning in {untested_warning(machine.torch_version) for machine in machines} - {None}:
            print(warning)
        done = [block is not None and block == other
                for block, other in zip(blocks, other_blocks, strict=True)]  # fmt: skip
        again = "; resume=false measures them again" if any(done) else ""
        print(f"processes a side, in turns: {len(jobs)} ({sum(done)} reused{again})")
        every = turns(
            [job.case.case_id for job in jobs],
            [job.plan.replicate for job in jobs],
            jobs[0].plan.seed,
            requests[0].settings.order,
        )
        missing = {at: turn for at, turn in enumerate(every) if not done[turn[0]]}
        _take(missing, jobs, sides, requests[0].settings.order)
    for folder in folders if missing else ():
        with suppress(OSError):  # a disk too full for that keeps them as they are
            join(folder / ROWS)
    return folders


def _take(
    missing: Mapping[int, tuple[int, str]],
    jobs: Sequence[Job],
    sides: Mapping[str, SideProcess],
    order: str,
) -> None:
    """Measures what is missing in the order of `turns`, one process after the other.

    `missing` maps a position in that order to (index in `jobs`, side); `sides` maps a side to its
    process; `order`: random or given, which is stored in the rows. The number of a block is the
    time at which it began, so that no other command uses it.
    """
    begun: dict[int, int] = {}  # by replicate
    with progress_bar(len(missing), "process") as bar:
        for count, (position, (number, name)) in enumerate(missing.items(), 1):
            side, job = sides[name], jobs[number]
            block = begun.setdefault(job.plan.replicate, time.time_ns() // 1_000_000)
            label = f"{name} {job.label}"
            bar.set_description(label)
            place = Place(order, position, block, name, side.state.name)
            answer = side.ask(Worker.measure, number, place)
            advance(bar, count, f"{label}: {answer()}")


def _side_request(request: Request, side: str) -> Request:
    settings = request.settings
    study, resume = f"{settings.study}-{side}", settings.resume is not False
    others = [word for word in request.overrides if not word.startswith("study=")]
    return replace(
        request,
        settings=replace(settings, study=study, resume=resume),
        overrides=(*others, f"study={study}"),
    )


def turns(
    cases: Sequence[Hashable], replicates: Sequence[int], seed: int, order: str
) -> list[tuple[int, str]]:
    """Returns the order in which the processes of both sides run, each as (job number, side).

    Job n measures `cases[n]` as its replicate `replicates[n]`. A block holds the processes of one
    replicate. Within a block, the two sides of a case follow each other, so that a drift of the
    machine affects both. A random half of the cases begin with the old side; in the next block the
    other half do. If `order` is `random`, the cases of a block are shuffled.
    """
    source = random.Random(seed)
    distinct = list(dict.fromkeys(cases))
    source.shuffle(distinct)
    first = {case: place for place, case in enumerate(distinct, source.randrange(2))}
    numbers = list(range(len(cases)))
    if order == "random":
        source.shuffle(numbers)
    numbers.sort(key=lambda number: replicates[number])
    return [
        (number, side)
        for number in numbers
        for side in SIDES[:: 1 if (first[cases[number]] + replicates[number]) % 2 else -1]
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Maps a function over pieces of work, in several processes if that is worth starting them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from typing import NoReturn, TypeVar

from tqdm import tqdm

from modescope.bench.records.child_processes import deaf_to_interrupts, without_main
from modescope.bench.records.cores import usable_cores

MOST_PROCESSES = 4  # 120 MB each; reading takes half a minute on two cores, more gain little

Piece = TypeVar("Piece")
Output = TypeVar("Output")


def spread(
    function: Callable[[Piece], Output], pieces: Sequence[Piece], worth_it: bool
) -> Generator[Output]:
    """The results of `function` for each piece, in order; in worker processes if `worth_it`.

    Function, pieces and results are then pickled; threads would contend for the interpreter lock.
    Closing the generator early waits for the pieces in progress. If a worker is killed, the
    remaining pieces are computed in this process.
    """
    processes = min(usable_cores(), len(pieces), MOST_PROCESSES)
    if not worth_it or processes < 2:
        yield from map(function, pieces)
        return
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _end_with_parent)
    done = 0
    try:
        with deaf_to_interrupts(), without_main():
            results = pool.map(function, pieces)
        for result in results:
            yield result
            done += 1
    except BrokenProcessPool:
        yield from map(function, pieces[done:])
    finally:
        pool.shutdown(cancel_futures=True)


def progress(runs: int, what: str) -> tqdm[NoReturn]:
    """A bar over so many runs in a terminal, for what takes longer than two seconds."""
    return tqdm(total=runs, desc=what, unit="run", delay=2, leave=False, disable=None)


def _end_with_parent() -> None:
    """Ends a worker whose parent died: it holds both ends of its queue, so its read never ends."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)

"""A function over many pieces of work: on several cores, where that pays for starting processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from typing import TypeVar

from bench.cores import usable_cores
from bench.isolation import deaf_to_interrupts, without_main

MOST_PROCESSES = 4  # of 120 MB each; more save little of what takes half a minute on two cores

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def spread(
    function: Callable[[Piece], Result], pieces: Sequence[Piece], worth_it: bool
) -> Generator[Result]:
    """What `function` makes of each piece, in order; in processes of their own where `worth_it`.

    Then function, pieces and results are pickled; threads would wait for the interpreter. Whoever
    stops it early waits for the pieces that were begun or are next. What a process that was killed
    leaves undone is done here.
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


def _end_with_parent() -> None:
    """A worker waits for ever on a queue whose other end it holds itself."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)

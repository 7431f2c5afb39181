"""A function over many pieces of work: on all cores, where that pays for starting processes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from bench.cores import usable_cores
from bench.isolation import deaf_to_interrupts, without_main

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def spread(
    function: Callable[[Piece], Result], pieces: Sequence[Piece], worth_it: bool
) -> Generator[Result]:
    """What `function` makes of each piece, in order; in processes of their own where `worth_it`.

    Then function, pieces and results are pickled. Threads would wait for the interpreter. Whoever
    stops it early waits for the pieces that were begun.
    """
    workers = min(usable_cores() or 1, len(pieces))
    if not worth_it or workers < 2:
        yield from map(function, pieces)
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        with deaf_to_interrupts(), without_main():
            results = pool.map(function, pieces)
        yield from results
    finally:
        pool.shutdown(cancel_futures=True)

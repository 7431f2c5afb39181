"""Clocks of what threads do."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from modescope.bench.watching.ledger import COMPILED, COMPILING, Ledger, Times
from modescope.bench.watching.pieces import OfThread, Piece, count


def test_one_clock_runs_at_a_time() -> None:
    now = [0.0]
    ledger = Ledger(lambda: now[0])

    def after(seconds: float, kind: int, step: int) -> None:
        now[0] += seconds
        ledger.shift(kind, step)

    after(1, COMPILED, 1)  # 1 s of neither
    after(2, COMPILING, 1)  # 2 s in compiled code
    after(4, COMPILED, -1)  # 4 s of compiling, in compiled code or not
    after(8, COMPILING, -1)
    now[0] += 16
    assert ledger.read() == Times(12.0, 2.0, 17.0)


def test_difference() -> None:
    assert Times(3, 5, 9).since(Times(1, 2, 4)) == Times(2, 3, 5)


def test_threads_at_once() -> None:
    before, ledger = sys.getswitchinterval(), Ledger()
    piece = Piece(("f", "net.py:1"), None, "f")
    run, start = count(int, piece, ledger, OfThread()), ledger.since[0]
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                pool.submit(lambda: [(run(), ledger.shift(COMPILING, 0)) for _ in range(20_000)])
    finally:
        sys.setswitchinterval(before)
    assert ledger.open == [0, 0]
    times = ledger.read()
    total = times.compiling_s + times.compiled_s + times.other_s
    assert total == pytest.approx(ledger.since[0] - start)
    assert piece.seconds >= times.compiled_s > 0  # threads overlap

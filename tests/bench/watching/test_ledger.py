"""Clocks of what threads do."""

from modescope.bench.watching.ledger import COMPILED, COMPILING, Ledger, Times


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

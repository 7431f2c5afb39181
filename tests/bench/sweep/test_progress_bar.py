"""What is said of a case that takes long, where there is a terminal and where there is none."""

from __future__ import annotations

import io
from contextlib import closing
from typing import NoReturn

import pytest
from tqdm import tqdm

from modescope.bench.sweep import progress_bar
from modescope.bench.sweep.progress_bar import Waiting

Phases = list[tuple[str, float]]  # each with its seconds


def spend(phases: Phases, bar: tqdm[NoReturn]) -> list[tuple[float, str]]:
    """Lets time pass; returns when the waiting was awake in vain or not, and what the bar said."""
    now_s = 0.0
    waiting = Waiting(bar, "mlp compile bf16", lambda: now_s)
    shown = []
    for phase, seconds in phases:
        waiting.begin(phase)
        ended_s = now_s + seconds
        while (next_s := now_s + waiting.wait()) < ended_s:
            now_s = next_s
            waiting.wait()
            shown.append((now_s, bar.desc.removesuffix(": ")))
        now_s = ended_s
    return shown


@pytest.fixture
def hidden() -> tqdm[NoReturn]:
    """As without a terminal."""
    return progress_bar.progress_bar(1, "case")


@pytest.fixture
def terminal() -> tqdm[NoReturn]:
    return tqdm(total=1, file=io.StringIO(), ncols=100)


def test_without_a_terminal_a_long_phase_is_a_line_at_times_ever_further_apart(
    hidden: tqdm[NoReturn], capsys: pytest.CaptureFixture[str]
) -> None:
    spend([("reference", 9.0), ("first call", 700.0), ("timing", 9.0)], hidden)
    lines = capsys.readouterr().err.splitlines()
    told = "mlp compile bf16: first call, "
    assert lines == [f"{told}{seconds} s so far" for seconds in (10, 60, 360, 660)]


def test_nothing_is_printed_of_a_fast_case(
    hidden: tqdm[NoReturn], capsys: pytest.CaptureFixture[str]
) -> None:
    assert spend([("reference", 9.9), ("first call", 9.9), ("timing", 9.9)], hidden) == []
    with progress_bar.show(False):
        assert len(spend([("first call", 700.0)], progress_bar.progress_bar(1, "case"))) == 4
    assert capsys.readouterr().err == ""


def test_on_a_terminal_the_seconds_are_renewed_in_one_line(
    terminal: tqdm[NoReturn], capsys: pytest.CaptureFixture[str]
) -> None:
    told = "mlp compile bf16: first call, "
    with closing(terminal):
        assert spend([("reference", 3.0), ("first call", 12.5)], terminal) == [
            (3.0 + seconds, f"{told}{seconds} s so far") for seconds in (10, 11, 12)
        ]
    assert "\n" not in terminal.fp.getvalue().rstrip("\n")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("phase", ["timing", "clocks"])
def test_calls_that_are_timed_are_hardly_disturbed(phase: str, terminal: tqdm[NoReturn]) -> None:
    with closing(terminal):
        assert [at_s for at_s, _ in spend([(phase, 100.0)], terminal)] == [10.0, 60.0]

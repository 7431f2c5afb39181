"""Processes that start and make calls: total times by hand, and the rung that is recommended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modescope.analysis import table
from modescope.analysis.estimates import high, low
from modescope.analysis.recommend import starting
from modescope.analysis.recommend.advice import fold
from modescope.analysis.recommend.constraints import Wishes
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.results import Record
from tests.helpers.drawings import rows_of
from tests.helpers.recommendations import CALL_S, control
from tests.helpers.studies import record, save

EAGER_S = 1.0  # from the start of a process in eager to its first result


def rung(
    cache: str, start_s: float, fill_s: float | None = None, speedup: float = 1.5,
    mode: str = "compile", starts: int = 5, **columns: Any,
) -> Record:  # fmt: skip
    """A row whose processes need `start_s`, more or less by 0.01 s, beside eager's EAGER_S."""
    off = [0.01 * (place - (starts - 1) / 2) for place in range(starts)]
    given: dict[str, Any] = {
        "starts_s": tuple(start_s + extra for extra in off),
        "baseline_starts_s": (EAGER_S,) * starts,
        "fill_s": fill_s,
        "compile_cache": cache,
    }
    return record(mode, CALL_S, speedup, **(given | columns))


LADDER = (
    rung("cold", 15.0), rung("warm", 4.0, 14.0), rung("precompiled", 3.0, 16.0),
    rung("cold", 1.2, 80.0, 1.5, "aoti", package_export_s=1.0, package_build_s=30.0),
)  # fmt: skip


def of_calls(seconds: float) -> float:
    """How many calls of the baseline take so long; it is 1.5 times as slow as the others."""
    return seconds / (1.5 * CALL_S)


@pytest.mark.parametrize(
    ("processes", "seconds", "chosen", "refused"),
    [
        # eager: 1 × (1 + 0.1); all others start later, by as much
        (1, 0.1, "eager", {"unpaid"}),
        # eager 31; cold 15 + 20, warm 14 + 4 + 20, precompiled 16 + 3 + 20, aoti 80 + 1.2 + 20
        (1, 30.0, "eager", {"unpaid"}),
        # eager 310: precompiled 16 + 10 × 23, warm 14 + 10 × 24, aoti 80 + 10 × 21.2
        (10, 30.0, "compile with compile_cache=precompiled", {"less", "unpaid"}),
        # eager 31,000: aoti 80 + 21,200, precompiled 16 + 23,000
        (1000, 30.0, "aoti", {"less", "unpaid"}),
        # eager 1,001: cold 15 + 667, warm 14 + 4 + 667: as fast
        (1, 1000.0, "compile", {"less"}),
    ],
)
def test_the_rung_with_the_shortest_total_wins(
    tmp_path: Path, processes: int, seconds: float, chosen: str, refused: set[str]
) -> None:
    wishes = Wishes(of_calls(seconds), starts=processes)
    (answer,) = recommend(rows_of(tmp_path, control(), *LADDER), wishes)
    assert answer.choice.mode.startswith(chosen)
    assert {refusal.kind.value for refusal in answer.refused} <= refused
    assert (answer.outcome == "baseline") is (chosen == "eager")


def test_without_starts_each_cache_and_package_has_an_answer_of_its_own(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, control(), *LADDER)
    assert len(recommend(rows, Wishes(1000))) == len(LADDER)


def test_the_gain_is_the_ratio_of_totals_with_the_ends_of_both_intervals(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, rung("warm", 4.0, 14.0))
    (row,) = as_rows(rows)
    gain = starting.of_starts(row, 10, of_calls(30.0))
    assert gain.value == pytest.approx(310 / (14 + 10 * (4 + 20)), rel=1e-3)
    speedup, ratio = row["speedup"], row["start_ratio"]
    assert ratio.value == pytest.approx(4.0, rel=1e-3)
    worst_s = 14 + 10 * (EAGER_S * ratio.high + 30 / speedup.low)
    best_s = 14 + 10 * (EAGER_S * ratio.low + 30 / speedup.high)
    ends = (310 / worst_s, 310 / best_s)
    assert (low(gain), high(gain)) == pytest.approx(ends, rel=1e-3)


@pytest.mark.parametrize(
    "row", [record("compile", CALL_S), rung("warm", 4.0, 14.0, starts=2)], ids=["none", "two"]
)
def test_rows_whose_starts_have_no_interval_are_refused(tmp_path: Path, row: Record) -> None:
    (answer,) = recommend(rows_of(tmp_path, control(), row), Wishes(1e6, starts=3))
    assert [refusal.kind.value for refusal in answer.refused] == ["start_unknown"]
    assert answer.choice is None


def test_an_answer_tells_the_rung_and_what_its_processes_take(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, control(), rung("warm", 4.0, 14.0))
    (advice,) = fold(recommend(rows, Wishes(1e6, starts=20)))
    (precision,) = advice.precisions
    text = precision.spans[0].text
    for told in ("compile_cache=warm", "20 processes", "1,000,000 calls", "14.0 s", "4.00 s"):
        assert told in text
    assert precision.name == "fp32"


def test_starts_need_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save([control(), *LADDER], tmp_path)
    for options in (["--starts", "20"], ["--starts", "2.5", "--calls", "10"]):
        assert table.main([str(tmp_path), *options]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert table.main([str(tmp_path), "--starts", "1000", "--calls", "56000"]) == 0
    assert "fp32: aoti, " in capsys.readouterr().out

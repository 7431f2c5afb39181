"""Rows on a GPU whose host was slow: what is told of them, and what is recommended."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.estimates import point
from modescope.analysis.format import cells, phrases
from modescope.analysis.recommend.decide import recommend
from modescope.analysis.recommend.types import Outcome
from modescope.analysis.recommend.wording import remarks
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.results import Record
from modescope.bench.timing import pace
from modescope.bench.timing.paired import play_pairs
from tests.helpers.derivations import rows_of_each, table_of
from tests.helpers.made_up_records import BUDGET
from tests.helpers.paths import REFERENCE
from tests.helpers.simulated import SimulatedDevice
from tests.helpers.studies import record

BF16 = table_of(str(REFERENCE / "nvidia-h100/bf16"))
MAIN = table_of(str(REFERENCE / "nvidia-h100"))


def _row(table: object, model: str, mode: str, dtype: str) -> Row:
    wanted = (model, mode, dtype)
    (row,) = [row for row in as_rows(table)  # type: ignore[arg-type]
              if (row["model"], phrases.mode(row), row["dtype"]) == wanted]  # fmt: skip
    return row


def test_a_host_at_half_speed_in_all_rounds_leaves_a_mode_undecided() -> None:
    row = _row(BF16, "transformer", "compile-cuda-graph", "bf16")
    assert (row["slow_rounds"], row["rounds"], row["verdict"]) == (0, 120, "inconclusive")
    assert row["cause"].split(";")[0] == "slow_host"
    assert "the host ran at 2.1× its usual time: undecided" in row["cause_text"]
    assert "the device works 2.6 % less than the baseline's" in row["cause_text"]
    assert row["break_even_calls"] is None


def test_such_a_mode_is_not_recommended_and_the_answer_says_why() -> None:
    (answer,) = [one for one in recommend(BF16) if one.question.model == "transformer"]
    assert answer.outcome == Outcome.MODE
    assert answer.choice is not None
    assert answer.choice.mode == "cuda-graph"
    assert answer.floor is None  # the baseline against itself had a slow host, too
    said = "compile-cuda-graph: the host ran at 2.1× its usual time: undecided."
    assert said in list(remarks(answer))


def test_enough_rounds_at_full_pace_decide_and_are_counted() -> None:
    row = _row(MAIN, "transformer", "compile", "bf16")
    assert (row["slow_rounds"] + row["rounds"], row["verdict"]) == (53, "faster")
    assert 12 <= row["rounds"] < 20
    assert "slow_pace" not in predicates.flags(row)
    assert row["speedup"].value > 10.5  # of all rounds 10.42, of the slow ones 10.41
    said = f"{row['rounds']:.0f} of 53 rounds: the host was slow in the others"
    assert said in cells.remarks(row)


FULL_S = 20e-6  # the fixed code at full pace
SHORT = replace(BUDGET, block_s=1.5e-3, max_rounds=120, timed_max_s=5.0)
GRAPH = 5e-6, 700e-6
SIDES = {
    "waits for its host": (GRAPH, (900e-6, 680e-6)),
    "gains nothing": (GRAPH, (35e-6, 700e-6)),
    "lost to what its host does": ((840e-6, 650e-6), (35e-6, 700e-6)),
}
"""Host and device seconds of a call of the case and of its baseline."""


def _study(sides: tuple[tuple[float, float], ...], slow: float, seed: int) -> Record:
    """A case on a GPU whose host is at half speed in a share `slow` of windows of 50 ms."""
    device: Any = SimulatedDevice()
    source = random.Random(seed)
    windows: dict[int, float] = {}

    def factor() -> float:
        return windows.setdefault(int(device.now_s / 0.05), 2.0 if source.random() < slow else 1.0)

    def call(host_s: float, device_s: float) -> Callable[[], None]:
        def work() -> None:
            noise = source.lognormvariate(0.0, 0.01)
            device.launch(host_s * noise * factor(), device_s * source.lognormvariate(0.0, 0.005))

        return work

    paced = pace.clock(lambda: device.launch(FULL_S * factor(), 0.0))
    case, baseline = (call(*each) for each in sides)
    rounds = play_pairs(case, baseline, device, SHORT, seed, [*map(sum, sides)], pace=paced)
    columns = {
        name: getattr(rounds, name)
        for name in (
            "latency_rounds_s",
            "baseline_latency_rounds_s",
            "case_ran_first",
            "pace_rounds_s",
        )
    }
    return record("cuda-graph", device="cuda", best_pace_s=FULL_S, flags=(), **columns)


@pytest.mark.parametrize("slow", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sides", SIDES.values(), ids=SIDES)
def test_a_host_at_half_speed_turns_no_sign_and_moves_no_speedup(
    sides: tuple[tuple[float, float], ...], slow: float, tmp_path: Path
) -> None:
    """In 34 studies of each kind, so 102 for each share of slow rounds."""
    case_s, baseline_s = map(sum, sides)  # a kernel starts once its launch is over
    true = baseline_s / case_s
    sign = "faster" if true > 1.02 else "slower" if true < 0.98 else "equivalent"
    rows = rows_of_each(tmp_path, (_study(sides, slow, seed) for seed in range(34)))
    for row in rows:
        assert row["verdict"] in (sign, "inconclusive")
        assert point(row["speedup"]) in (None, pytest.approx(true, rel=0.05))
    decided = sum(row["verdict"] == sign for row in rows)
    assert decided == 0 if slow == 1.0 else decided > 25

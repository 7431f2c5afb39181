"""Rows against another mode: ratios worked out by hand, which row is taken, what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis.derive.against import (
    BETWEEN_PROCESSES,
    COLUMNS,
    NEEDED,
    against,
    ratio,
)
from modescope.analysis.estimates import point, values
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import value_of
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import Record
from tests.helpers.derivations import studies_of
from tests.helpers.drawings import rows_of
from tests.helpers.rows import row_with
from tests.helpers.studies import not_measured, record

HALF = 0.02 * 13 / 39  # of the interval of ln(speedup) in one process of 40 rounds
WIDENING = math.log1p(BETWEEN_PROCESSES)
BF16: dict[str, Any] = {"dtype": "bf16", "baseline_dtype": "bf16"}


def _rows(folder: Path, *studies: Iterable[Record]) -> list[dict[str, Row]]:
    """The rows of each study by mode, with the columns that a ratio needs."""
    found = studies_of(folder, studies)
    return [
        {row["mode"]: row_with({name: value_of(row, name) for name in NEEDED}) for row in rows}
        for rows in found
    ]


def _replicates(mode: str, middle: float, offsets: Sequence[float]) -> list[Record]:
    return [
        record(mode, speedup=middle * math.exp(offset), replicate=n)
        for n, offset in enumerate(offsets)
    ]


def _expected(value: float, half_width: float) -> list[Any]:
    ends = (value * math.exp(-half_width), value * math.exp(half_width))
    return [pytest.approx(each, rel=1e-3) for each in (value, *ends)]


def _numbers(rows: dict[str, Row], one: str, other: str) -> list[float | None]:
    found = ratio(rows[one], rows[other])
    return [found.value, found.low, found.high]


SPREAD = (-0.01, 0.0, 0.01)
OF_THREE = 4.3027 * 0.01 / math.sqrt(3)  # Welch's with the spread of one side alone: t(2)


def test_a_ratio_has_the_interval_of_its_processes(tmp_path: Path) -> None:
    planted: list[tuple[Sequence[float], Sequence[float], float]] = [
        (SPREAD, SPREAD, 2.7764 * 0.01 * math.sqrt(2 / 3)),  # t(4)
        (SPREAD, [0.0] * 4, OF_THREE),
        # Too few processes of one side: the worst case of both, widened
        ([0.0], [0.0], 2 * HALF + WIDENING),
        ([0.0] * 2, [0.0] * 2, 2 * HALF + WIDENING),
        ([0.0] * 3, [0.0], HALF + WIDENING),
        ([0.0] * 2, [0.0] * 5, HALF + WIDENING),
    ]
    studies = ([*_replicates("compile", 1.5, one), *_replicates("no_grad", 1.25, other)]
               for one, other, _ in planted)  # fmt: skip
    for rows, (*_, half_width) in zip(_rows(tmp_path, *studies), planted, strict=True):
        assert _numbers(rows, "compile", "no_grad") == _expected(1.2, half_width)
        assert _numbers(rows, "no_grad", "compile") == _expected(1 / 1.2, half_width)


def test_ratios_with_the_baseline_are_paired_and_a_row_to_itself_is_one(tmp_path: Path) -> None:
    # The baseline's run against itself, 0.98, is noise and enters neither ratio.
    (rows,) = _rows(tmp_path, [record("eager", speedup=0.98), record("compile", speedup=1.5)])
    assert _numbers(rows, "compile", "eager") == _expected(1.5, HALF)
    assert _numbers(rows, "eager", "compile") == _expected(1 / 1.5, HALF)
    assert [_numbers(rows, mode, mode) for mode in rows] == [[1.0, None, None]] * 2


def test_there_is_no_ratio_without_both_speedups(tmp_path: Path) -> None:
    differing: list[dict[str, Any]] = [
        {"budget": "smoke"}, {"status": "oom", "reason": "why"},
        {"baseline_latency_rounds_s": None},
    ]  # fmt: skip
    studies = ([record("compile", **one), record("no_grad")] for one in differing)
    smoke = [record("compile"), record("eager", budget="smoke")]
    for rows in _rows(tmp_path, *studies, smoke):
        one, other = rows.values()
        assert ratio(other, one) is ratio(one, other) is None


def test_processes_without_a_speedup_or_an_interval(tmp_path: Path) -> None:
    """All ended ok; in two the baseline was wrong, in one there were few rounds."""
    lost = [record("compile", replicate=n, baseline_latency_rounds_s=None) for n in (2, 3)]
    few = record("compile", speedup=1.5, rounds=5, replicate=2)
    two = _replicates("compile", 1.5, [0.0] * 2)
    uncounted, alone, several = _rows(
        tmp_path,
        [*two, *lost, *_replicates("no_grad", 1.25, SPREAD)],
        [few, record("no_grad", speedup=1.25)],
        [*two, few, *_replicates("no_grad", 1.25, [0.0] * 3)],
    )
    expected = _expected(1.2, HALF + OF_THREE + WIDENING)
    assert _numbers(uncounted, "compile", "no_grad") == expected
    for rows in (alone, several):
        assert _numbers(rows, "compile", "no_grad") == [pytest.approx(1.2), None, None]


def test_the_reference_of_the_same_grad_is_a_trusted_row_of_the_same_work(tmp_path: Path) -> None:
    """And one with equal options, if there are several."""
    differing: list[dict[str, Any]] = [
        {"shape": '{"batch":5}'}, {"environment_id": "env-2"}, {"baseline_mode": "no_grad"},
        {"dtype": "bf16"}, {"grad": "no_grad"}, {"in_effect": False}, {"budget": "smoke"},
        {"status": "wrong_result", "reason": "why"}, {"rounds": 5},
    ]  # fmt: skip
    plain = [record("inference_mode", speedup=1.25 + n / 4, batch_dim=n, case_id=f"plain {n}")
             for n in (0, 1)]  # fmt: skip
    found = studies_of(tmp_path, [
        *([record("compile"), record("inference_mode", **differs)] for differs in differing),
        [record("compile", budget="smoke"), record("inference_mode")],
        [*plain, record(batch_dim=None)],
        [*plain, *(record(speedup=3.0, batch_dim=n, case_id=f"{n}") for n in (0, 1))],
    ])  # fmt: skip
    compiled = ([row for row in rows if row["mode"] == "compile"] for rows in found)
    *none, equal = ([point(row["speedup_same_grad"]) for row in rows] for rows in compiled)
    assert none == [[None]] * 11
    assert equal == pytest.approx([3.0 / 1.25, 3.0 / 1.5])


def _against(folder: Path, wanted: str, *records: Record) -> pd.DataFrame:
    return against(rows_of(folder, *records), wanted)


FIVE = [
    record("eager", speedup=0.99),
    record("inference_mode", speedup=1.25),
    record("compile", latency_s=1e-3, speedup=1.5, first_call_s=3.0),
    record("amp", speedup=1.0),
    not_measured("cuda-graph", "skipped", "no GPU"),
]


def test_every_row_is_compared_with_that_mode_of_its_work(tmp_path: Path) -> None:
    other_work = record("inference_mode", speedup=2.0, model="mlp"), record("compile", model="mlp")
    rows = rows_of(tmp_path, *FIVE, *other_work)
    compared = against(rows, "inference_mode")
    assert set(compared) - set(rows) == set(COLUMNS)
    pd.testing.assert_frame_equal(compared[list(rows)], rows)
    found = compared.set_index(["model", "mode"])
    assert values(found["against_speedup"])["mlp", "compile"] == pytest.approx(1.25 / 2)
    of_first = found.loc["transformer"]
    assert set(zip(of_first["against_mode"], of_first["against_dtype"], strict=True)) == {
        ("inference_mode", "fp32")
    }
    speedups = values(of_first["against_speedup"]).to_dict()
    assert speedups == pytest.approx({
        "eager": 1 / 1.25,  # paired: not its own 0.99
        "inference_mode": 1.0, "compile": 1.2, "amp": 0.8, "cuda-graph": math.nan,
    }, nan_ok=True)  # fmt: skip
    assert of_first["against_verdict"].to_dict() == {
        "eager": "slower", "inference_mode": None, "compile": "faster", "amp": "slower",
        "cuda-graph": None,
    }  # fmt: skip
    assert of_first["against_processes"].dropna().to_dict() == {"compile": 1, "amp": 1}
    # 2 s more than the other's first call, and 0.2 ms gained in each call of 1 ms
    assert of_first.loc["compile", "against_break_even_calls"] == pytest.approx(10_000)


def test_against_the_baseline_is_the_paired_speedup(tmp_path: Path) -> None:
    rows = _against(tmp_path, "eager fp32", record("compile", speedup=1.5))
    for column in ("speedup", "break_even_calls"):
        assert rows[f"against_{column}"].tolist() == rows[column].tolist()


PRECISIONS = [
    record("inference_mode", speedup=1.25),
    record("inference_mode", speedup=2.0, dtype="bf16"),
    record("compile", speedup=3.0, dtype="bf16"),
]
BASELINES = [
    record("inference_mode", speedup=1.25),
    record("inference_mode", speedup=1.1, **BF16),
    record("compile", speedup=1.5),
    record("compile", speedup=2.2, case_id="bf16", **BF16),
]
CACHES = [
    record("no_grad", speedup=1.5),
    record("no_grad", speedup=1.2, compile_cache="warm"),
    record("compile", speedup=3.0),
    record("compile", speedup=2.4, compile_cache="warm"),
    record("eager", speedup=1.8),
]
APART = [
    record("max-autotune", speedup=1.5, case_id="whole"),
    record("max-autotune", speedup=1.2, case_id="pieces", fullgraph=False),
    record("compile", speedup=1.8),
]
USABLE = record("inference_mode", model="mlp")
UNUSABLE: list[dict[str, Any]] = [
    {"baseline_mode": "no_grad"}, {"in_effect": False}, {"rounds": 5}, {"environment_id": "other"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "records", "expected"),
    [
        ("inference_mode", PRECISIONS, [2.4]),  # at the baseline's precision
        ("inference_mode bf16", PRECISIONS, [1.5]),
        ("inference_mode", PRECISIONS[1:], [1.5]),  # the only one
        ("inference_mode", BASELINES, [1.2, 2.0]),  # of the same baseline
        ("no_grad", CACHES, [2.0, 2.0]),  # of the same compiler cache
        ("no_grad", [CACHES[0], *CACHES[2:]], [1.6, 2.0]),  # or of the only one
        ("max-autotune (fullgraph=false)", APART, [1.5]),  # as the table names it
        ("max-autotune (fullgraph=false) fp32", APART, [1.5]),
        *(
            ("inference_mode", [record("inference_mode", **one), record("compile"), USABLE], [])
            for one in UNUSABLE
        ),
    ],
)
def test_the_row_that_others_are_compared_with(
    tmp_path: Path, wanted: str, records: Sequence[Record], expected: list[float]
) -> None:
    rows = _against(tmp_path, wanted, *records)
    compiled = values(rows[rows["mode"] == "compile"]["against_speedup"]).dropna()
    assert sorted(compiled) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("inference", "there is amp, compile, eager and inference_mode"),
        ("cuda-graph", "skipped: no GPU"),
        ("reduce-overhead", "not in effect: no GPU to capture"),
        ("max-autotune", r"--against 'max-autotune \(fullgraph=true\) fp32'"),  # several
    ],
)
def test_a_mode_that_nothing_can_be_compared_with_is_refused(
    tmp_path: Path, wanted: str, why: str
) -> None:
    idle = record("reduce-overhead", in_effect=False, in_effect_note="no GPU to capture")
    several = APART[:2] if wanted == "max-autotune" else []
    with pytest.raises(UsageError, match=why):
        _against(tmp_path, wanted, *FIVE, idle, *several)

"""Rows against another mode: ratios worked out by hand, which row is taken, what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from modescope.analysis.derive.against import (
    BETWEEN_PROCESSES,
    COLUMNS,
    NEEDED,
    against,
    in_place_of_the_baseline,
    ratio,
)
from modescope.analysis.format.phrases import Row
from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import Record
from modescope.bench.stats.estimates import verdict
from tests.helpers.derivations import studies_of
from tests.helpers.drawings import rows_of
from tests.helpers.studies import not_measured, record

HALF = 0.02 * 13 / 39  # of the interval of ln(speedup) in one process of 40 rounds
WIDENING = math.log1p(BETWEEN_PROCESSES)
BF16: dict[str, Any] = {"dtype": "bf16", "baseline_dtype": "bf16"}


def _rows(folder: Path, *records: Record) -> dict[str, Row]:
    (rows,) = _studies(folder, records)
    return rows


def _studies(folder: Path, *studies: Iterable[Record]) -> list[dict[str, Row]]:
    """The rows of each study by mode, with the columns that a ratio needs."""
    found = studies_of(folder, studies)
    return [{row["mode"]: {name: row[name] for name in NEEDED} for row in rows} for rows in found]


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
    assert found is not None
    return [found.value, found.low, found.high]


def test_single_processes_have_the_worst_case_widened_by_the_spread_between_them(
    tmp_path: Path,
) -> None:
    one, other = record("compile", speedup=1.5), record("inference_mode", speedup=1.25)
    rows = _rows(tmp_path, one, other)
    expected = _expected(1.2, 2 * HALF + WIDENING)
    assert _numbers(rows, "compile", "inference_mode") == expected
    assert _numbers(rows, "inference_mode", "compile") == _expected(1 / 1.2, 2 * HALF + WIDENING)


def test_three_processes_of_both_have_welchs_interval(tmp_path: Path) -> None:
    # sd 0.01 each: error 0.01 * sqrt(2 / 3) with 4 degrees of freedom, t(4) = 2.7764
    offsets = (-0.01, 0.0, 0.01)
    modes = [*_replicates("compile", 1.5, offsets), *_replicates("no_grad", 1.25, offsets)]
    half_width = 2.7764 * 0.01 * math.sqrt(2 / 3)
    assert _numbers(_rows(tmp_path, *modes), "compile", "no_grad") == _expected(1.2, half_width)


def test_a_row_with_a_larger_spread_decides_the_degrees_of_freedom(tmp_path: Path) -> None:
    # The spread of one side vanishes, so Welch's freedom is that of the other: t(2) = 4.3027
    modes = [
        *_replicates("compile", 1.5, (-0.01, 0.0, 0.01)),
        *_replicates("no_grad", 1.25, (0.0, 0.0, 0.0, 0.0)),
    ]
    half_width = 4.3027 * 0.01 / math.sqrt(3)
    assert _numbers(_rows(tmp_path, *modes), "compile", "no_grad") == _expected(1.2, half_width)


def test_too_few_processes_on_either_side_are_widened(tmp_path: Path) -> None:
    studies = [
        [*_replicates("compile", 1.5, [0.0] * one), *_replicates("no_grad", 1.25, [0.0] * other)]
        for one, other in ((3, 1), (1, 3), (2, 2), (5, 2))
    ]
    for rows in _studies(tmp_path, *studies):
        _, low, high = _numbers(rows, "compile", "no_grad")
        assert low is not None
        assert high is not None
        assert low < 1.2 / (1 + BETWEEN_PROCESSES) * 1.0001
        assert high > 1.2 * (1 + BETWEEN_PROCESSES) * 0.9999


def test_ratios_with_the_baseline_are_paired(tmp_path: Path) -> None:
    # The baseline's run against itself, 0.98, is noise and enters neither ratio.
    rows = _rows(tmp_path, record("eager", speedup=0.98), record("compile", speedup=1.5))
    assert _numbers(rows, "compile", "eager") == _expected(1.5, HALF)
    assert _numbers(rows, "eager", "compile") == _expected(1 / 1.5, HALF)


def test_a_row_to_itself_is_one_without_an_interval(tmp_path: Path) -> None:
    rows = _rows(tmp_path, record("eager"), record("compile", speedup=1.5))
    assert [_numbers(rows, mode, mode) for mode in rows] == [[1.0, None, None]] * 2


def test_there_is_no_ratio_without_both_speedups(tmp_path: Path) -> None:
    differing: list[dict[str, Any]] = [
        {"budget": "smoke"}, {"status": "oom", "reason": "why"},
        {"baseline_latency_rounds_s": None},
    ]  # fmt: skip
    studies = [
        *([record("compile", speedup=1.5, **one), record("no_grad")] for one in differing),
        [record("compile", speedup=1.5), record("eager", budget="smoke")],
    ]
    for rows in _studies(tmp_path, *studies):
        one, other = rows.values()
        assert ratio(other, one) is None
        assert ratio(one, other) is None


@pytest.mark.parametrize("known", [1, 2])
def test_processes_without_a_speedup_do_not_count(tmp_path: Path, known: int) -> None:
    """All three ended ok, but in the others the baseline was wrong, so nothing is divided."""
    others = [
        record("compile", replicate=n, baseline_latency_rounds_s=None) for n in range(known, 3)
    ]
    three = _replicates("inference_mode", 1.25, (-0.01, 0.0, 0.01))
    rows = _rows(tmp_path, *_replicates("compile", 1.5, [0.0] * known), *others, *three)
    assert rows["compile"]["speedup_processes"] == known
    of_three = 4.3027 * 0.01 / math.sqrt(3)
    expected = _expected(1.2, HALF + of_three + WIDENING)
    assert _numbers(rows, "compile", "inference_mode") == expected


def test_a_process_without_an_interval_leaves_the_ratio_without_one(tmp_path: Path) -> None:
    few = record("compile", speedup=1.5, rounds=5, replicate=2)
    three = _replicates("inference_mode", 1.25, [0.0] * 3)
    rows = _rows(tmp_path, *_replicates("compile", 1.5, [0.0] * 2), few, *three)
    assert _numbers(rows, "compile", "inference_mode") == [pytest.approx(1.2), None, None]


def test_without_rounds_for_an_interval_there_is_a_value_alone(tmp_path: Path) -> None:
    rows = _rows(tmp_path, record("compile", speedup=1.5, rounds=5), record("no_grad", speedup=1.2))
    assert _numbers(rows, "compile", "no_grad") == [pytest.approx(1.25), None, None]


@pytest.mark.parametrize(("count", "within"), [(1, (0.94, 0.975)), (5, (0.94, 0.975))])
def test_intervals_hold_the_true_ratio_over_processes(
    count: int, within: tuple[float, float]
) -> None:
    """Of 2,000 pairs whose processes differ by 1.1 % (2.3 % between the ends of some four)."""
    source = np.random.default_rng(1)
    spread, known = 0.011, 0
    for _ in range(2000):
        one, other = (_simulated(mode, source.normal(0, spread, count)) for mode in ("a", "b"))
        found = ratio(one, other)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        known += found.low <= 1 <= found.high
    assert within[0] <= known / 2000 <= within[1]


def _simulated(mode: str, logarithms: Any) -> Row:
    """A row with intervals of 0.2 % within its processes."""
    value = math.exp(logarithms.mean())
    spread = float(logarithms.std(ddof=1)) if len(logarithms) > 1 else None
    return {
        "run_id": mode, "mode": mode, "dtype": "fp32", "baseline_mode": "eager",
        "baseline_dtype": "fp32", "budget_rank": 2, "speedup": value,
        "speedup_ci_low": value / 1.002, "speedup_ci_high": value * 1.002,
        "speedup_process_spread": spread, "speedup_processes": len(logarithms),
    }  # fmt: skip


def test_equal_code_in_two_processes_gets_no_verdict(tmp_path: Path) -> None:
    # What the reference study's MLP showed: 0.984 and 1.006 for the same code.
    rows = _rows(
        tmp_path,
        record("compile", speedup=0.984, spread=0.002),
        record("max-autotune", speedup=1.006, spread=0.002),
    )
    assert verdict(ratio(rows["max-autotune"], rows["compile"])) == "inconclusive"


def _same_grad(folder: Path, *studies: list[Record]) -> list[dict[str, float | None]]:
    found = studies_of(folder, studies)
    return [{row["mode"]: row["speedup_same_grad"] for row in rows} for rows in found]


def test_speedup_same_grad_excludes_the_gain_of_the_grad_axis(tmp_path: Path) -> None:
    (found,) = _same_grad(tmp_path, [
        record("eager", speedup=1.0),
        record("no_grad", speedup=1.1),
        record("inference_mode", speedup=1.25),
        record("compile", speedup=1.5),
        record("amp", speedup=2.0),
        record("compile[grad=no_grad]", speedup=1.32, grad="no_grad"),
    ])  # fmt: skip
    assert found["compile"] == pytest.approx(1.5 / 1.25)
    assert found["amp"] == pytest.approx(2.0 / 1.25)  # bf16, against fp32 as its baseline is
    assert found["compile[grad=no_grad]"] == pytest.approx(1.32 / 1.1)
    for itself in ("eager", "no_grad", "inference_mode"):
        assert found[itself] is None


def test_the_reference_of_the_same_grad_is_a_trusted_row_of_the_same_work(tmp_path: Path) -> None:
    differing: list[dict[str, Any]] = [
        {"model": "mlp"}, {"model_args": '{"width":8}'}, {"shape": '{"batch":5}'},
        {"phase": "train"}, {"optimizer": "adamw"}, {"training": '{"checkpoint":"model"}'},
        {"device": "cuda"}, {"threads": 2}, {"environment_id": "env-2"},
        {"baseline_mode": "no_grad"}, {"baseline_dtype": "bf16", "dtype": "bf16"},
        {"dtype": "bf16"}, {"grad": "no_grad"}, {"in_effect": False}, {"budget": "smoke"},
        {"status": "wrong_result", "reason": "why"}, {"rounds": 5},
    ]  # fmt: skip
    compiled = record("compile", speedup=1.5)
    pairs = [[compiled, record("inference_mode", speedup=1.25, **differs)] for differs in differing]
    smoke = [
        [
            record("compile", speedup=1.5, budget="smoke", baseline_mode=baseline),
            record("inference_mode", speedup=1.25, baseline_mode=baseline),
        ]
        for baseline in ("eager", "compile")
    ]
    found = _same_grad(tmp_path, *pairs, *smoke)
    assert [rows["compile"] for rows in found] == [None] * 19


def test_the_reference_of_the_same_grad_has_equal_options(tmp_path: Path) -> None:
    plain = [
        record("inference_mode", speedup=1.25 + 0.25 * n, batch_dim=n, case_id=f"plain {n}")
        for n in (0, 1)
    ]
    both = [record(speedup=3.0, batch_dim=n, case_id=f"{n}") for n in (0, 1)]
    neither = [record(speedup=3.0, batch_dim=None)]
    found = [
        [row["speedup_same_grad"] for row in rows if row["mode"] == "compile"]
        for rows in studies_of(tmp_path, [[*plain, *both], [*plain, *neither]])
    ]
    assert found == [pytest.approx([3.0 / 1.25, 3.0 / 1.5]), [None]]


def _against(folder: Path, wanted: str, *records: Record) -> pd.DataFrame:
    return against(rows_of(folder, *records), wanted)


def _by_mode(rows: pd.DataFrame, column: str) -> dict[str, Any]:
    return dict(zip(rows["mode"], rows[column], strict=True))


def _five() -> list[Record]:
    return [
        record("eager", speedup=0.99),
        record("inference_mode", speedup=1.25),
        record("compile", speedup=1.5),
        record("amp", speedup=1.0),
        not_measured("cuda-graph", "skipped", "no GPU"),
    ]


def test_every_row_is_compared_with_that_mode_of_its_work(tmp_path: Path) -> None:
    other_work = [
        record("inference_mode", speedup=2.0, model="mlp"),
        record("compile", speedup=1.0, model="mlp"),
    ]
    rows = _against(tmp_path, "inference_mode", *_five(), *other_work)
    mlp = rows["model"] == "mlp"
    assert _by_mode(rows[mlp], "against_speedup")["compile"] == pytest.approx(0.5)
    found = _by_mode(rows[~mlp], "against_speedup")
    assert found["compile"] == pytest.approx(1.5 / 1.25)
    assert found["amp"] == pytest.approx(1.0 / 1.25)
    assert found["eager"] == pytest.approx(1 / 1.25)  # paired: not its own 0.99
    assert found["inference_mode"] == 1
    assert math.isnan(found["cuda-graph"])
    assert set(rows["against_mode"]) == {"inference_mode"}
    assert set(rows["against_dtype"]) == {"fp32"}


def test_verdicts_and_processes_are_those_of_the_ratio(tmp_path: Path) -> None:
    rows = _against(tmp_path, "inference_mode", *_five())
    assert _by_mode(rows, "against_verdict") == {
        "eager": "slower", "inference_mode": None, "compile": "faster", "amp": "slower",
        "cuda-graph": None,
    }  # fmt: skip
    behind = _by_mode(rows, "against_processes")
    assert [behind[mode] for mode in ("compile", "amp")] == [1, 1]
    assert all(math.isnan(behind[mode]) for mode in ("eager", "inference_mode"))


def test_against_the_baseline_is_the_paired_speedup(tmp_path: Path) -> None:
    for name in ("eager", "eager fp32"):
        rows = _against(tmp_path / name, name, record("compile", speedup=1.5))
        for end in ("", "_ci_low", "_ci_high"):
            assert rows[f"against_speedup{end}"].tolist() == rows[f"speedup{end}"].tolist()
        assert rows["against_verdict"].tolist() == rows["verdict"].tolist()
        assert rows["against_break_even_calls"].tolist() == rows["break_even_calls"].tolist()


def test_the_first_call_pays_against_that_of_the_other_mode(tmp_path: Path) -> None:
    # 2 s more, and 1 ms gained in each call of 1 ms
    rows = _against(
        tmp_path, "amp",
        record("amp", speedup=1.0, first_call_s=1.0),
        record("compile", latency_s=1e-3, speedup=2.0, first_call_s=3.0),
    )  # fmt: skip
    assert _by_mode(rows, "against_break_even_calls")["compile"] == pytest.approx(2000)


def test_without_a_precision_it_is_that_of_the_baseline(tmp_path: Path) -> None:
    modes = [
        record("inference_mode", speedup=1.25),
        record("inference_mode", speedup=2.0, dtype="bf16"),
        record("compile", speedup=3.0, dtype="bf16"),
    ]
    usual = _against(tmp_path / "usual", "inference_mode", *modes)
    assert _by_mode(usual, "against_speedup")["compile"] == pytest.approx(3.0 / 1.25)
    named = _against(tmp_path / "named", "inference_mode bf16", *modes)
    assert _by_mode(named, "against_speedup")["compile"] == pytest.approx(1.5)
    only = _against(tmp_path / "only", "compile", *modes)
    assert set(only["against_dtype"]) == {"bf16"}


def test_rows_of_another_baseline_are_compared_with_that_of_theirs(tmp_path: Path) -> None:
    rows = _against(
        tmp_path, "inference_mode",
        record("inference_mode", speedup=1.25),
        record("inference_mode", speedup=1.1, **BF16),
        record("compile", speedup=1.5),
        record("compile", speedup=2.2, case_id="bf16", **BF16),
    )  # fmt: skip
    compiled = rows[rows["mode"] == "compile"].set_index("dtype")["against_speedup"]
    assert compiled.to_dict() == pytest.approx({"fp32": 1.2, "bf16": 2.0})


def test_a_row_of_the_same_compiler_cache_is_preferred(tmp_path: Path) -> None:
    caches = [
        record("compile", speedup=1.5),
        record("compile", speedup=1.2, compile_cache="warm"),
        record("max-autotune", speedup=3.0),
        record("max-autotune", speedup=2.4, compile_cache="warm"),
        record("no_grad", speedup=1.8),
    ]
    rows = _against(tmp_path, "compile", *caches)
    tuned = rows[rows["mode"] == "max-autotune"].set_index("compile_cache")["against_speedup"]
    assert tuned.to_dict() == pytest.approx({"cold": 2.0, "warm": 2.0})


def _apart() -> list[Record]:
    return [
        record("compile", speedup=1.5, case_id="whole"),
        record("compile", speedup=1.2, case_id="pieces", fullgraph=False),
        record("no_grad", speedup=1.0),
    ]


def test_a_mode_is_named_as_the_table_names_it(tmp_path: Path) -> None:
    for name in ("compile (fullgraph=false)", "compile (fullgraph=false) fp32"):
        rows = _against(tmp_path / name, name, *_apart())
        assert _by_mode(rows, "against_speedup")["no_grad"] == pytest.approx(1 / 1.2)


def test_what_names_several_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--against 'compile \(fullgraph=true\) fp32'"):
        _against(tmp_path, "compile", *_apart())


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("inference", "there is amp, compile, eager and inference_mode"),
        ("cuda-graph", "skipped: no GPU"),
        ("reduce-overhead", "not in effect: no GPU to capture"),
    ],
)
def test_a_mode_that_nothing_can_be_compared_with_is_refused(
    tmp_path: Path, wanted: str, why: str
) -> None:
    idle = record("reduce-overhead", in_effect=False, in_effect_note="no GPU to capture")
    with pytest.raises(UsageError, match=why):
        _against(tmp_path, wanted, *_five(), idle)


def test_rows_of_other_work_or_without_an_interval_are_not_compared_with(tmp_path: Path) -> None:
    """Each in an environment of its own; one row of that mode may be compared with."""
    differing: list[dict[str, Any]] = [
        {"model": "mlp"}, {"shape": '{"batch":5}'}, {"threads": 2}, {"device": "cuda"},
        {"phase": "train"}, {"baseline_mode": "no_grad"}, BF16, {"in_effect": False},
        {"budget": "smoke"}, {"rounds": 5}, {"environment_id": "other"},
    ]  # fmt: skip
    pairs = (
        (record("compile", speedup=1.5, environment_id=f"{number}"),
         record("inference_mode", speedup=1.25, **{"environment_id": f"{number}", **differs}))
        for number, differs in enumerate(differing)
    )  # fmt: skip
    usable = record("inference_mode", speedup=1.25, model="lstm")
    rows = _against(tmp_path, "inference_mode", *(one for pair in pairs for one in pair), usable)
    compiled = rows[rows["mode"] == "compile"]
    assert len(compiled) == len(differing)
    assert compiled[["against_mode", "against_speedup"]].isna().all(axis=None)


def test_only_the_named_columns_are_added(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, *_five())
    compared = against(rows, "inference_mode")
    assert set(compared) - set(rows) == set(COLUMNS)
    pd.testing.assert_frame_equal(compared[list(rows)], rows)


def test_a_table_shows_the_mode_in_place_of_the_baseline(tmp_path: Path) -> None:
    other_work = record("compile", model="mlp")
    compared = _against(tmp_path, "inference_mode", *_five(), other_work)
    shown = in_place_of_the_baseline(compared)
    assert set(shown["model"]) == {"transformer"}
    assert set(shown["baseline_mode"]) == {"inference_mode"}
    for name, source in (("speedup", "against_speedup"), ("verdict", "against_verdict")):
        assert shown[name].equals(shown[source])

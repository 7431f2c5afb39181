from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis.derive.registry import METRICS, Metric, derive, derived
from modescope.analysis.derive.select import latest
from modescope.analysis.format import cells, phrases
from modescope.analysis.load import read
from modescope.bench.records.results import Record
from tests.helpers.pass_columns import BOUNDS, GENERATED, memory, pool, profiled
from tests.helpers.studies import blocks, cpu_clocks, cuda_clocks, not_measured, record, save


def _row(tmp_path: Path, one: Record) -> dict[str, Any]:
    (row,) = derived(save([one], tmp_path)).to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_latency_and_its_order_statistic_interval(tmp_path: Path) -> None:
    # 12 rounds of 1 ... 12 ms: the median is 6.5 ms, the 95 % interval [x(3), x(10)]
    times = tuple(n * 1e-3 for n in (7, 1, 12, 3, 9, 5, 11, 2, 8, 4, 10, 6))
    row = _row(tmp_path, record(latency_rounds_s=times, baseline_latency_rounds_s=times))
    assert row["latency_s"] == pytest.approx(6.5e-3)
    assert row["latency_ci_low_s"] == pytest.approx(3e-3)
    assert row["latency_ci_high_s"] == pytest.approx(10e-3)
    assert row["rounds"] == 12


def test_speedup_is_paired_by_round(tmp_path: Path) -> None:
    # Every round ran at another speed; the case took half the baseline's time in each of them.
    case = tuple(n * 1e-3 for n in range(1, 13))
    baseline = tuple(2 * time for time in case)
    row = _row(tmp_path, record(latency_rounds_s=case, baseline_latency_rounds_s=baseline))
    assert row["speedup"] == pytest.approx(2)
    assert row["speedup_ci_low"] == pytest.approx(2)
    assert row["speedup_ci_high"] == pytest.approx(2)
    assert row["verdict"] == "faster"
    assert row["baseline_latency_s"] == pytest.approx(13e-3)
    assert row["mde"] == pytest.approx(0)


def test_p95_is_read_from_single_calls_and_needs_a_hundred(tmp_path: Path) -> None:
    calls = tuple(n * 1e-6 for n in range(1, 102))  # 1 ... 101 µs: 95 % lie at or below 96
    assert _row(tmp_path / "a", record(latency_calls_s=calls))["latency_p95_s"] == pytest.approx(
        96e-6
    )
    few = _row(tmp_path / "b", record(latency_calls_s=calls[:99]))
    assert math.isnan(few["latency_p95_s"])


@pytest.mark.parametrize(
    ("speedup", "spread", "first_call_s", "expected"),
    [
        (2.0, 0.002, 1.002, 1000.0),  # the first call takes 1 s more, each call 1 ms less
        (2.0, 0.002, 0.001, 0.0),  # first call cheaper than the baseline's 0.002 s
        (0.5, 0.002, 1.002, math.inf),
        (1.0, 0.002, 1.002, math.inf),  # equivalent, and 1 within the interval
        (1.001, 0.004, 1.002, math.inf),  # as well: 0.9997 to 1.0023
        (1.02, 0.2, 1.002, None),  # inconclusive
        (2.0, 0.002, None, None),
    ],
)
def test_break_even(
    tmp_path: Path, speedup: float, spread: float, first_call_s: float | None, expected: float
) -> None:
    one = record(latency_s=1e-3, speedup=speedup, spread=spread, first_call_s=first_call_s)
    value = _row(tmp_path, one)["break_even_calls"]
    assert math.isnan(value) if expected is None else value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("mode", "speedup", "first_call_s", "baseline_first_call_s", "expected"),
    [
        ("no_grad", 1.2, 0.004, 0.002, 0.0),  # 12 calls by one reading, none by another
        ("inference_mode", 1.2, 0.001, 0.002, 0.0),
        ("amp", 2.0, 0.100, 0.002, 0.0),  # below the noticeable limit
        ("amp", 2.0, 3.9, 2.0, 0.0),  # within twice as long
        ("no_grad", 1.2, 0.4, 0.002, None),  # the machine's other work, or the mode's own
        ("no_grad", 1.2, None, 0.002, None),
        ("no_grad", 1.2, 0.002, None, None),
        ("no_grad", 0.8, 0.4, 0.002, math.inf),  # for any first call
        ("no_grad", 0.8, None, None, math.inf),
        ("eager", 1.2, 0.004, 0.002, None),  # the baseline itself replaces nothing
        ("compile", 1.2, 0.102, 0.002, 500.0),  # building something always counts
        ("cuda-graph", 1.2, 0.022, 0.002, 100.0),
    ],
)
def test_break_even_counts_the_first_call_of_modes_that_build_something(
    tmp_path: Path,
    mode: str,
    speedup: float,
    first_call_s: float | None,
    baseline_first_call_s: float | None,
    expected: float | None,
) -> None:
    one = record(
        mode, 1e-3, speedup, spread=0.002,
        first_call_s=first_call_s, baseline_first_call_s=baseline_first_call_s,
    )  # fmt: skip
    value = _row(tmp_path, one)["break_even_calls"]
    assert math.isnan(value) if expected is None else value == pytest.approx(expected)


@pytest.mark.parametrize(("speedup", "as_named"), [(2.0, "1,000"), (0.5, "never")])
def test_a_mode_that_is_not_in_effect_does_not_pay_or_fail_to_pay(
    tmp_path: Path, speedup: float, as_named: str
) -> None:
    for in_effect, expected in ((True, as_named), (False, "–")):
        one = record(
            latency_s=1e-3, speedup=speedup, spread=0.002, first_call_s=1.002, in_effect=in_effect
        )
        (row,) = phrases.as_rows(derived(save([one], tmp_path / str(in_effect))))
        assert cells.break_even(row) == expected


LISTS = ("flags", "flags_touch")


@pytest.mark.parametrize("status", ["failed", "wrong_result", "oom", "timeout", "crashed"])
def test_only_ok_rows_have_derived_values(tmp_path: Path, status: str) -> None:
    passes = profiled(9, 1e-4) | memory(1000, 10) | BOUNDS | GENERATED | cpu_clocks(357e-6, 50e-6)
    row = _row(tmp_path, record(status=status, reason="it went wrong", **passes))
    assert [m.name for m in METRICS if m.name not in LISTS and pd.notna(row[m.name])] == []


def test_smoke_rows_have_values_but_no_verdict(tmp_path: Path) -> None:
    row = _row(tmp_path, record(budget="smoke"))
    assert row["speedup"] == pytest.approx(1.25)
    assert pd.isna(row["verdict"])
    assert pd.isna(row["break_even_calls"])


def test_too_few_rounds_have_no_interval_and_no_verdict(tmp_path: Path) -> None:
    row = _row(tmp_path, record(rounds=11))
    assert row["speedup"] == pytest.approx(1.25)
    unknown = ("speedup_ci_low", "latency_ci_high_s", "verdict", "mde")
    assert all(pd.isna(row[name]) for name in unknown)


def test_without_a_baseline_there_is_latency_and_no_speedup(tmp_path: Path) -> None:
    row = _row(
        tmp_path,
        record(baseline_mode=None, baseline_dtype=None, baseline_latency_rounds_s=None),
    )
    assert row["latency_s"] == pytest.approx(357e-6)
    assert pd.isna(row["speedup"])


def _scaled(factor: float, speedup: float, spread: float) -> list[Record]:
    """Two processes of a compiled mode on a GPU at different speeds, and the reference row."""
    device_s = 0.9e-3 * factor**0.5  # so that part of the gain comes from the host
    clocks = cuda_clocks(0.4e-3 * factor, device_s, 0.1e-3 * factor)
    passes = memory(round(1e6 * factor), 1000) | profiled(9, device_s * 0.9) | BOUNDS | pool(0, 0)
    moved = {"bytes_accessed": round(1e6 * factor), "eager_bytes": 2_000_000}
    names = ("forward_rounds_s", "backward_rounds_s", "optimizer_rounds_s", "scaler_rounds_s")
    parts: dict[str, Any] = dict.fromkeys(names, blocks(0.25e-3 * factor)) | {
        "parts_latency_rounds_s": blocks(1e-3 * factor), "loss_scale": 1024.0,
    }  # fmt: skip
    planted: dict[str, Any] = clocks | passes | moved | parts
    return [
        record("compile", 1e-3 * factor, speedup * off, replicate=number, **planted)
        for number, off in enumerate((1 - spread, 1 + spread))
    ] + [record("inference_mode", 1.2e-3, 1.0, **cuda_clocks(0.5e-3, 1e-3, 0.2e-3))]


_NO_WAY_IS_BETTER = {
    "baseline_latency_s", "verdict", "mde", "rounds", "host_wait_s", "device_idle_s", "bound_by",
    "device_idle_fraction", "residual_s", "floor_s", "floor_bound", "flags", "flags_touch", "cause",
    "cause_text",
    "parts_ratio",
    "parts_residual_s", "parts_ratio_ci_low", "parts_ratio_ci_high", "pace",
    "pace_slowest",
    *(f"{name}{end}" for end in ("", "_ci_low", "_ci_high") for name in (
        "host_share", "device_share", "pipelined_share", "dispatch_share", "host_per_device",
        "forward_share", "backward_share", "optimizer_share", "scaler_share")),
}  # fmt: skip


@pytest.fixture(scope="module")
def slow_and_fast(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The same work at 1.2 and at 1.5 times the baseline's speed (the baseline takes 1.2 ms)."""
    folder = tmp_path_factory.mktemp("studies")
    planted = {"slow": (1.0, 1.2, 0.02), "fast": (0.8, 1.5, 0.01)}
    return [
        derived(save(_scaled(*how), folder / name)).set_index("mode").loc["compile"]
        for name, how in planted.items()
    ]


_AT_FULL_PACE = ("latency_at_full_pace_s", "latency_at_full_pace_ci_low_s",
                 "latency_at_full_pace_ci_high_s")  # fmt: skip
_THREADS_GAIN = ("threads_gain", "threads_gain_ci_low", "threads_gain_ci_high")
_CONFIRMING = tuple(f"confirming_speedup{end}" for end in ("", "_ci_low", "_ci_high"))
# of the same latency in both studies; null on a GPU, with one number of threads, or unconfirmed
_THE_SAME = {
    **dict.fromkeys(("latency_process_spread", *_AT_FULL_PACE), "lower"),
    **dict.fromkeys((*_THREADS_GAIN, *_CONFIRMING), "higher"),
}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_direction_of_each_metric_matches_slow_and_fast_rows(
    slow_and_fast: list[Any], metric: Metric
) -> None:
    slow, fast = slow_and_fast
    if metric.name in _THE_SAME:
        assert metric.better == _THE_SAME[metric.name]
    elif metric.better == "lower":
        assert fast[metric.name] < slow[metric.name]
    elif metric.better == "higher":
        assert fast[metric.name] > slow[metric.name]
    else:
        assert metric.name in _NO_WAY_IS_BETTER


@pytest.mark.parametrize(
    ("accessed", "eager", "expected"),
    [(300, 1000, 700), (1200, 1000, -200), (None, 1000, None), (300, None, None)],
)
def test_bytes_saved_are_bytes_of_eager_less_bytes_of_compiled_code(
    tmp_path: Path, accessed: int | None, eager: int | None, expected: int | None
) -> None:
    saved = _row(tmp_path, record(bytes_accessed=accessed, eager_bytes=eager))["bytes_saved"]
    assert math.isnan(saved) if expected is None else saved == expected


def test_clocks_are_medians_with_their_intervals(tmp_path: Path) -> None:
    clocks = cuda_clocks(120e-6, 40e-6, 70e-6)
    row = _row(tmp_path, record("eager", 132e-6, 1.0, **clocks))
    assert row["host_s"] == pytest.approx(120e-6)
    assert row["host_ci_low_s"] == pytest.approx(120e-6 * (1 - 0.01 * 7 / 11))  # 3rd of 12
    assert row["host_ci_high_s"] == pytest.approx(120e-6 * (1 + 0.01 * 7 / 11))
    assert row["device_s"] == pytest.approx(40e-6)
    assert row["pipelined_s"] == pytest.approx(120e-6)
    assert row["dispatch_s"] == pytest.approx(70e-6)
    few = _row(tmp_path / "few", record(host_rounds_s=(1e-6, 3e-6)))
    assert few["host_s"] == pytest.approx(2e-6)
    assert math.isnan(few["host_ci_low_s"])


def test_a_call_on_cuda_is_split_between_host_and_device(tmp_path: Path) -> None:
    row = _row(tmp_path, record("eager", 132e-6, 1.0, **cuda_clocks(120e-6, 40e-6, 70e-6)))
    split = {name: row[f"{name}_s"] * 1e6 for name in ("launch", "work", "host_wait")}
    assert split == pytest.approx({"launch": 50, "work": 40, "host_wait": 12}, rel=1e-3)
    assert row["device_idle_s"] == pytest.approx(92e-6, rel=1e-3)
    odd = _row(tmp_path / "odd", record("eager", 132e-6, **cuda_clocks(60e-6, 40e-6, 70e-6)))
    assert odd["launch_s"] == 0


def test_a_call_on_a_cpu_is_dispatch_and_work(tmp_path: Path) -> None:
    row = _row(tmp_path, record(latency_s=357e-6, **cpu_clocks(357e-6, 50e-6)))
    assert row["work_s"] == pytest.approx(307e-6, rel=1e-3)
    for name in ("launch_s", "host_wait_s", "device_idle_s", "device_s"):
        assert math.isnan(row[name])
    unread = _row(tmp_path / "unread", record(**cpu_clocks(357e-6, None)))
    assert math.isnan(unread["work_s"])


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (cpu_clocks(100e-6, 55e-6), "overhead"),
        (cpu_clocks(100e-6, 45e-6), "work"),
        (cpu_clocks(100e-6, 50.2e-6), "undecided"),  # 49.9 to 50.5 %
        (cpu_clocks(100e-6, None), None),
        (cuda_clocks(80e-6, 40e-6), "overhead"),
        (cuda_clocks(40e-6, 80e-6), "work"),
        (cuda_clocks(80e-6, 80.5e-6), "work"),  # host and device are slow in the same rounds
        (cuda_clocks(80e-6, 80.5e-6) | {"device_rounds_s": blocks(80.5e-6)[::-1]}, "undecided"),
        (cuda_clocks(80e-6, None), None),
    ],
)
def test_the_bottleneck_of_a_call_is_decided_on_intervals(
    tmp_path: Path, columns: dict[str, Any], expected: str | None
) -> None:
    told = _row(tmp_path, record("eager", 100e-6, 1.0, **columns))["bound_by"]
    assert pd.isna(told) if expected is None else told == expected


def _same_grad(tmp_path: Path, *records: Record) -> dict[str, float]:
    rows = derived(save(records, tmp_path))
    return dict(zip(rows["mode"], rows["speedup_same_grad"], strict=True))


def test_speedup_same_grad_excludes_the_gain_of_the_grad_axis(tmp_path: Path) -> None:
    found = _same_grad(
        tmp_path,
        record("eager", speedup=1.0),
        record("no_grad", speedup=1.1),
        record("inference_mode", speedup=1.25),
        record("compile", speedup=1.5),
        record("amp", speedup=2.0),
        record("compile[grad=no_grad]", speedup=1.32, grad="no_grad"),
    )
    assert found["compile"] == pytest.approx(1.5 / 1.25)
    assert found["amp"] == pytest.approx(2.0 / 1.25)  # bf16, against fp32 as its baseline is
    assert found["compile[grad=no_grad]"] == pytest.approx(1.32 / 1.1)
    for itself in ("eager", "no_grad", "inference_mode"):
        assert math.isnan(found[itself])


@pytest.mark.parametrize("baseline", ["eager", "compile"])
def test_a_smoke_run_has_no_speedup_same_grad(tmp_path: Path, baseline: str) -> None:
    smoke = record("compile", speedup=1.5, budget="smoke", baseline_mode=baseline)
    plain = record("inference_mode", speedup=1.25, baseline_mode=baseline)
    assert math.isnan(_same_grad(tmp_path, smoke, plain)["compile"])


@pytest.mark.parametrize(
    "differs",
    [
        {"model": "mlp"},
        {"model_args": '{"width":8}'},
        {"shape": '{"batch":5}'},
        {"phase": "train"},
        {"optimizer": "adamw"},
        {"training": '{"checkpoint":"model"}'},
        {"device": "cuda"},
        {"threads": 2},
        {"environment_id": "env-2"},
        {"baseline_mode": "no_grad"},
        {"baseline_dtype": "bf16", "dtype": "bf16"},
        {"dtype": "bf16"},
        {"grad": "no_grad"},
        {"in_effect": False},
        {"budget": "smoke"},
        {"status": "wrong_result", "reason": "why"},
        {"rounds": 5},
    ],
    ids=lambda differs: next(iter(differs)),
)
def test_the_reference_is_a_trusted_row_of_the_same_work(
    tmp_path: Path, differs: dict[str, Any]
) -> None:
    other = record("inference_mode", speedup=1.25, **differs)
    assert math.isnan(_same_grad(tmp_path, record("compile", speedup=1.5), other)["compile"])


def test_the_reference_has_equal_options(tmp_path: Path) -> None:
    def speedups(folder: str, *batch_dims: int | None) -> list[float]:
        plain = [
            record("inference_mode", speedup=1.25 + 0.25 * n, batch_dim=dim, case_id=f"plain {dim}")
            for n, dim in enumerate((0, 1))
        ]
        compiled = [record(speedup=3.0, batch_dim=dim, case_id=f"{dim}") for dim in batch_dims]
        rows = derived(save([*plain, *compiled], tmp_path / folder))
        return rows.loc[rows["mode"] == "compile", "speedup_same_grad"].tolist()

    assert speedups("both", 0, 1) == pytest.approx([3.0 / 1.25, 3.0 / 1.5])
    assert math.isnan(speedups("neither", None)[0])


def test_deriving_leaves_stored_columns_unchanged(tmp_path: Path) -> None:
    study = save([record(), not_measured("amp", "skipped", "why")], tmp_path)
    runs = latest(read(study).table)
    stored = [name for name in runs if name != "flags" and not str(name).startswith("_")]
    before = runs[stored].copy(deep=True)
    rows = derive(runs)
    pd.testing.assert_frame_equal(rows[before.columns], before)
    added = set(rows.columns) - set(before.columns)
    counted = {
        "replicates", "speedup_processes", "replicates_not_ok", "process_run_ids", "process_nodes",
            "apart",
    }  # fmt: skip
    assert added == counted | {metric.name for metric in METRICS} - {*_CONFIRMING}
    assert [list(values) for name in LISTS for values in rows[name]] == [[]] * 4

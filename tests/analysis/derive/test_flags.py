"""Flags: raised by rounds, clocks, stored conditions and other rows; what a table says of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.derive.flags import (
    CONDITIONS,
    FLAGS,
    GATE,
    LONGER,
    SLOW,
    Doubted,
    banner,
    doubtful_figures,
    legend,
)
from modescope.analysis.derive.profile import DOUBTS
from modescope.analysis.format import cells
from modescope.analysis.rows.type import Row
from modescope.bench.passes.profiler.profile import CHECKS
from modescope.bench.records.results import Record
from modescope.bench.stats.diagnostics import DIAGNOSTICS
from modescope.bench.stats.estimates import Estimate
from modescope.bench.summary import RULES
from tests.helpers.derivations import studies_of, table_of, values_of_each
from tests.helpers.paths import REFERENCE
from tests.helpers.rows import ends, row_with
from tests.helpers.studies import PACE_S, blocks, cpu_clocks, cuda_clocks, record


def _flags(folder: Path, latency_s: float, *runs: dict[str, Any]) -> list[list[str]]:
    records = (record("eager", latency_s, 1.0, **columns) for columns in runs)
    return [list(raised) for raised in values_of_each(folder, "flags", records)]


BROKEN = ["broken_invariant"]


def test_clocks_that_disagree_on_a_cpu_are_flagged(tmp_path: Path) -> None:
    planted: list[tuple[float | None, float, list[str]]] = [
        (104e-6, 97e-6, []),
        (104e-6, 94e-6, BROKEN),
        (104e-6, 103e-6, []),
        (107e-6, 107e-6, BROKEN),  # both 7 % above the latency
        (93e-6, 93e-6, BROKEN),
        (None, 107e-6, []),
    ]
    clocks = [
        cpu_clocks(100e-6, None)
        | {
            "host_rounds_s": None if host_s is None else blocks(host_s, spread=0.001),
            "pipelined_rounds_s": blocks(pipelined_s, spread=0.001),
        }
        for host_s, pipelined_s, _ in planted
    ]
    noisy = cpu_clocks(108e-6, None, spread=0.2)  # 108 us within 94 to 122
    assert _flags(tmp_path, 100e-6, *clocks, noisy) == [*(expected for *_, expected in planted), []]


def test_latency_on_cuda_is_compared_with_the_slower_of_host_and_device(tmp_path: Path) -> None:
    planted: list[tuple[float, float, float, float, list[str]]] = [
        (132e-6, 120e-6, 40e-6, 120e-6, []),
        (52e-6, 8e-6, 41e-6, 41e-6, []),
        (132e-6, 120e-6, 40e-6, 128e-6, BROKEN),  # pipelined 7 % above the slower one
        (132e-6, 120e-6, 40e-6, 112e-6, BROKEN),
        (112e-6, 120e-6, 40e-6, 120e-6, BROKEN),  # a call shorter than its host time
        (163e-6, 120e-6, 40e-6, 120e-6, []),  # at most 120 + 40 + 4
        (180e-6, 120e-6, 40e-6, 120e-6, BROKEN),
    ]
    records = (
        record("eager", latency_s, 1.0,
               **cuda_clocks(host_s, device_s) | {"pipelined_rounds_s": blocks(pipelined_s)})
        for latency_s, host_s, device_s, pipelined_s, _ in planted
    )  # fmt: skip
    found = values_of_each(tmp_path, "flags", records)
    assert list(map(list, found)) == [expected for *_, expected in planted]


def test_a_missing_device_time_raises_only_its_own_flag(tmp_path: Path) -> None:
    odd = cuda_clocks(120e-6, None, 50e-6) | {"pipelined_rounds_s": blocks(300e-6)}
    wrong = {**cuda_clocks(120e-6, None), "status": "wrong_result", "reason": "why"}
    assert _flags(tmp_path, 132e-6, odd, wrong) == [["not_isolable"], []]


def test_flags_of_rounds_conditions_and_clocks_are_combined(tmp_path: Path) -> None:
    """Their limits are those of `bench.stats.diagnostics`."""
    case, baseline = np.random.default_rng(0).normal(0, 0.005, (2, 60))
    drift: dict[str, Any] = {
        "latency_rounds_s": tuple((1e-3 * np.exp(case + np.linspace(0, 0.011, 60))).tolist()),
        "baseline_latency_rounds_s": tuple((1e-3 * np.exp(baseline)).tolist()),
        "case_ran_first": tuple(n % 2 == 0 for n in range(60)),
        "watched_s": 2.0, "cpu_wait_s": 0.001, "machine_cores": 2,
    }  # fmt: skip
    odd = {**cpu_clocks(2e-3, None), "flags": ("no_steady_state", "drift")}
    planted: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["drift"]),
        (odd, ["no_steady_state", "drift", *BROKEN]),
        ({"cpu_wait_s": 0.05}, ["drift", "contended"]),
        ({"gpu_processes": 1}, ["drift", "contended"]),
        ({"device_clock_hz": (1.98e9, 1.5e9)}, ["drift", "throttled"]),
        ({"cpu_wait_s": 1.0, "budget": "smoke"}, []),
        ({"cpu_wait_s": 1.0, "status": "wrong_result", "reason": "why"}, []),
    ]
    found = _flags(tmp_path, 1e-3, *(drift | columns for columns, _ in planted))
    assert found == [expected for _, expected in planted]


END = 0.01 * 7 / 11  # of the interval of twelve blocks
APART = 1.05 * (1 + END) / (1 - END)  # both intervals, and 5 % between them


def _eager(mode: str, device_s: float = 40e-6, **columns: Any) -> Record:
    host_s = 8e-6 if mode == "cuda-graph" else 100e-6
    latency_s = max(host_s, device_s) + 10e-6
    return record(mode, latency_s, 1.2, **(cuda_clocks(host_s, device_s) | columns))


def _contradicted(folder: Path, studies: Iterable[list[Record]]) -> list[set[str]]:
    """In each study the modes with the flag of two rows whose device times differ."""
    return [
        {row["mode"] for row in rows if GATE in row["flags"]}
        for rows in studies_of(folder, studies)
    ]


BOTH = {"inference_mode", "cuda-graph"}
SLOW_BASELINE: dict[str, Any] = {"baseline_device_rounds_s": (60e-6,) * 12}


def test_both_rows_are_flagged_where_their_device_times_differ(tmp_path: Path) -> None:
    planted: list[tuple[Record, set[str]]] = [
        (_eager("cuda-graph", 40e-6 * APART * 0.999), set()),
        (_eager("cuda-graph", 40e-6 * APART * 1.001), BOTH),
        (_eager("cuda-graph", 40e-6 / APART * 1.001), set()),
        (_eager("cuda-graph", 40e-6 / APART * 0.999), BOTH),
        # A GPU at another clock slows the baseline too
        (_eager("cuda-graph", 60e-6, **SLOW_BASELINE), set()),
        (_eager("cuda-graph", **SLOW_BASELINE), BOTH),
        (_eager("cuda-graph", 60e-6, baseline_device_rounds_s=None), set()),
    ]
    pairs = ([_eager("inference_mode"), graph] for graph, _ in planted)
    assert _contradicted(tmp_path, pairs) == [expected for _, expected in planted]


@pytest.mark.parametrize(("kernels", "expected"), [(None, BOTH), (2, BOTH), (4, set())])
def test_pauses_between_kernels_that_a_graph_shortens_are_no_contradiction(
    kernels: int | None, expected: set[str], tmp_path: Path
) -> None:
    """The graph saves 4 µs of 40 beyond the tolerance, a microsecond a kernel."""
    graph = _eager("cuda-graph", 36.1e-6 / APART)
    pair = [_eager("inference_mode", kernels=kernels), graph]
    assert _contradicted(tmp_path, [pair]) == [expected]


def test_no_kept_row_of_a_gpu_contradicts_its_graph() -> None:
    for study in ("nvidia-h100", "nvidia-h100/bf16", "nvidia-h100/training"):
        rows = table_of(str(REFERENCE / study))
        assert [GATE for flags in rows["flags"] if GATE in flags] == []


def test_a_profile_that_is_far_longer_than_the_clock_is_flagged(tmp_path: Path) -> None:
    spans = [None, 399e-6, 401e-6]
    runs = [{"profiled_span_s": one} for one in spans]
    assert _flags(tmp_path, 100e-6, *runs) == [[], [], [LONGER]]


def test_only_trusted_rows_of_the_same_kernels_are_compared(tmp_path: Path) -> None:
    differing: list[dict[str, Any]] = [
        {"grad": "no_grad"}, {"dtype": "bf16", "baseline_dtype": "bf16"}, {"shape": '{"batch":5}'},
        {"compile_mode": "default"}, {"in_effect": False}, {"device_rounds_s": None},
    ]  # fmt: skip
    pairs = [
        pair
        for differs in differing
        for pair in (
            [_eager("inference_mode", **differs), _eager("cuda-graph", 60e-6)],
            [_eager("inference_mode"), _eager("cuda-graph", 60e-6, **differs)],
        )
    ]
    on_cpu = [record(mode, 1e-4, 1.0, **cpu_clocks(1e-4, 1e-5)) for mode in ("eager", "no_grad")]
    assert _contradicted(tmp_path, [*pairs, on_cpu]) == [set()] * 13


def test_steps_are_compared_where_the_optimizer_runs_the_same_kernels_in_a_graph(
    tmp_path: Path,
) -> None:
    steps: list[dict[str, Any]] = [
        {"phase": "train", "optimizer": optimizer, "grad": "enabled", "flags": ("drift",)}
        for optimizer in ("sgd", "adamw")
    ]
    pairs = [[_eager("eager", **step), _eager("cuda-graph", 60e-6, **step)] for step in steps]
    found = [[row["flags"] for row in rows] for rows in studies_of(tmp_path, pairs)]
    assert found == [[["drift", GATE]] * 2, [["drift"]] * 2]


def test_a_row_is_flagged_where_the_machine_was_far_from_its_best_known_pace(
    tmp_path: Path,
) -> None:
    """The best is that of another row of the study, or of another study on the machine."""
    planted: list[tuple[float | None, dict[str, Any], bool]] = [
        (1.24 * PACE_S, {}, False),
        (1.26 * PACE_S, {}, True),
        (1.26 * PACE_S, {"budget": "smoke"}, False),
        (PACE_S, {"best_pace_s": PACE_S / 1.24}, False),
        (PACE_S, {"best_pace_s": PACE_S / 1.26}, True),
        (None, {}, False),
    ]
    studies = (
        [record("eager"), record("compile", pace_rounds_s=pace_s and (pace_s,) * 40, **columns)]
        for pace_s, columns, _ in planted
    )
    compiled = (row for rows in studies_of(tmp_path, studies) for row in rows[1:])
    assert [SLOW in row["flags"] for row in compiled] == [flagged for *_, flagged in planted]


def test_every_flag_is_explained_and_no_other() -> None:
    of_measuring = {
        "no_steady_state", "baseline_failed", "baseline_wrong", "baseline_not_in_effect",
        "other_operators", "settings_changed", "profile_empty",
    }  # fmt: skip
    of_profiles = {name for name, _ in CHECKS}
    known = {*DIAGNOSTICS, *RULES, GATE, SLOW, LONGER, *of_measuring, *of_profiles}
    assert known == set(FLAGS)
    assert {"profile_empty", LONGER, *of_profiles} == DOUBTS


def row(*flags: str, **columns: Any) -> Row:
    touch = doubtful_figures(flags)
    known = {"status": "ok", "budget_rank": 1, "flags": [*flags], "flags_touch": touch}
    return row_with({**known, "speedup": Estimate(1.4, 1.3, 1.5)}, **columns)


def test_each_flag_is_a_remark_or_in_the_legend_and_marks_a_figure() -> None:
    for flag, one in FLAGS.items():
        assert (flag in legend([row(flag)])) is (one.touches != Doubted.SPEEDUP), flag
        assert cells.approximate("3 µs", row("x", flag), one.touches) == "~3 µs"
    rows = [row("contended", "drift"), row("split_disagrees", "contended"), row()]
    assert "(contended 2 rows, split_disagrees 1 row)" in legend(rows)
    assert "wide" not in legend(rows)
    assert "wide" in legend([*rows, row("contended", speedup=ends(high=13.4))])
    assert cells.approximate("3 µs", row("contended"), "split") == "3 µs"
    assert cells.approximate("–", row("contended"), "latency") == "–"


def test_more_than_half_of_the_measured_rows_make_a_banner() -> None:
    for flag, (happened, _) in CONDITIONS.items():
        assert FLAGS[flag].touches == Doubted.LATENCY
        half = [row(flag), row()]
        assert banner(half) == ""
        assert happened in banner([row(flag), *half])
        assert "wide" not in banner([row(flag), *half])
        wide = banner([row(flag, speedup=ends(high=13.4)), *half])
        assert "wide because of it (1 speedup)" in wide
        for columns in ({"status": "skipped"}, {"budget_rank": 0}):
            assert banner([*half, row(flag, **columns)]) == ""
            assert banner([row(flag), row(**columns)])

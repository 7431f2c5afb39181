"""The invariants of rows of a GPU, on kept rows of an H100 and on violations planted in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import invariants
from tests.gpu.cards import CARDS, peaks_of
from tests.gpu.invariants import INVARIANTS, judge, main, printed_s, read
from tests.helpers.commands import Row
from tests.helpers.paths import REFERENCE

KEPT = REFERENCE / "nvidia-h100"
ROWS = {".": 28, "bf16": 13, "training": 4}


@pytest.fixture(scope="module")
def kept() -> dict[str, list[Row]]:
    return {study: [*map(dict, read(KEPT / study))] for study in ROWS}


@pytest.mark.parametrize("study", ROWS)
def test_every_kept_row_keeps_all(study: str, kept: dict[str, list[Row]]) -> None:
    broken, looked = judge(study, kept[study])
    assert broken == []
    assert dict(looked) == dict.fromkeys(INVARIANTS, ROWS[study])


def row_of(kept: dict[str, list[Row]], mode: str, dtype: str, study: str = ".", **more: Any) -> Row:
    wanted = {"mode": mode, "dtype": dtype, **more}
    (row,) = (
        row for row in kept[study] if {key: row[key] for key in wanted} == wanted
    )  # fmt: skip
    return row


GRAPH = ("cuda-graph", "fp32", "mlp")
Change = Callable[[Row], Row]

PLANTED: list[tuple[str, tuple[str, str, str], Change]] = [
    (
        "device within latency",
        GRAPH,
        lambda row: {"clocks_latency_rounds_s": [each - 2e-6 for each in row["device_rounds_s"]]},
    ),
    ("kernels within device", GRAPH, lambda row: {"kernels_s": 1.04 * row["device_s"]}),
    ("rates below the card's peak", GRAPH, lambda row: {"flops": int(68e12 * row["device_s"])}),
    (
        "rates below the card's peak",
        ("cuda-graph", "fp32", "transformer"),
        lambda row: {"least_bytes": int(3.4e12 * row["device_s"]), "flops": None},
    ),
    ("one graph launch per replay", GRAPH, lambda row: {"graph_launches": 2}),
    ("one graph launch per replay", GRAPH, lambda row: {"launches": 1}),
    (
        "one graph launch per replay",
        ("reduce-overhead", "fp32", "mlp"),
        lambda row: {"graph_launches": 0},
    ),
    ("one graph launch per replay", ("compile", "fp32", "mlp"), lambda row: {"graph_launches": 1}),
    # as it was: the bf16 transformer's 733.7 µs were printed as 664 µs, the MLP's 127 as 114
    (
        "printed as measured",
        GRAPH,
        lambda row: {"printed_latency": f"{0.93e6 * row['latency_s']:.0f} µs"},
    ),
    (
        "printed as measured",
        GRAPH,
        lambda row: {"printed_device": f"{0.98e6 * row['device_s']:.0f} µs"},
    ),
    (
        "printed as measured",
        GRAPH,
        lambda row: {"latency_rounds_s": [1.05 * each for each in row["latency_rounds_s"]]},
    ),
]


@pytest.mark.parametrize(("invariant", "of", "change"), PLANTED)
def test_a_planted_violation_is_found(
    invariant: str, of: tuple[str, str, str], change: Change, kept: dict[str, list[Row]]
) -> None:
    row = row_of(kept, of[0], of[1], model=of[2])
    broken, _ = judge("main", [{**row, **change(row)}])
    assert [each.invariant for each in broken] == [invariant]


def test_every_invariant_is_seen_to_fail() -> None:
    assert {invariant for invariant, _, _ in PLANTED} == {*INVARIANTS}


@pytest.mark.parametrize(
    ("row", "launches"),
    [
        ({"mode": "cuda-graph", "graph": True}, (1, 0)),
        ({"mode": "cuda-graph", "graph": True, "calls": '{"seq":[16,128]}'}, (2, 0)),
        ({"mode": "cuda-graph", "graph": True, "phase": "train"}, (1, 0)),
        (
            {"graph": True, "phase": "train", "training": '{"capture":"forward_backward"}'},
            (2, None),
        ),
        ({"mode": "reduce-overhead", "compile_mode": "reduce-overhead"}, (1, None)),
        (
            {"mode": "reduce-overhead", "compile_mode": "reduce-overhead", "phase": "train"},
            (2, None),
        ),
        ({"mode": "compile", "compile_mode": "default"}, (0, None)),
        ({}, (0, None)),
    ],
)
def test_graph_launches_that_a_mode_makes(row: Row, launches: tuple[int, int | None]) -> None:
    plain = {
        "mode": "eager", "grad": "enabled", "autocast": False, "compile_mode": "none",
        "graph": False, "phase": "inference", "training": None, "calls": None,
    }  # fmt: skip
    assert invariants.expected_launches(plain | row) == launches


def test_what_a_row_lacks_breaks_nothing(kept: dict[str, list[Row]]) -> None:
    row = row_of(kept, "eager", "fp32", model="mlp")
    lacking = dict.fromkeys(row) | {
        key: row[key] for key in ("run_id", "shape", "model", "phase", "mode", "dtype")
    }
    broken, looked = judge("main", [lacking])
    assert broken == []
    assert not looked


def test_small_data_may_come_from_the_cache(kept: dict[str, list[Row]]) -> None:
    row = row_of(kept, "cuda-graph", "fp32", model="mlp")
    fast = {**row, "least_bytes": 10**6, "device_s": 1e-7, "flops": None}
    assert invariants.rates_below_peak(fast) is None


def test_cards_are_found_by_the_name_of_the_driver() -> None:
    assert peaks_of("NVIDIA H100 80GB HBM3") is CARDS["H100 80GB HBM3"]
    assert peaks_of("NVIDIA H200") is CARDS["H200"]
    assert peaks_of("NVIDIA H2000") is None
    for peaks in CARDS.values():
        rates = [peaks.flops_per_s[dtype] for dtype in ("fp32", "tf32", "bf16")]
        assert rates == sorted(rates)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("~927 µs", 927e-6), ("1.05 ms", 1.05e-3), ("1,234 s", 1234.0), ("–", None)],
)
def test_printed_times_are_read(text: str, seconds: float | None) -> None:
    assert printed_s(text) == (None if seconds is None else pytest.approx(seconds))


def test_a_folder_is_judged_as_a_whole(tmp_path: Path) -> None:
    assert main(tmp_path) == 77
    shutil.copytree(KEPT / "training" / "rows", tmp_path / "training" / "rows")
    assert main(tmp_path) == 0
    assert (tmp_path / "broken-invariants.jsonl").read_text() == ""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive import memory as made_of
from modescope.analysis.derive.registry import derived
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.bench.records.results import Record
from tests.helpers.pass_columns import memory, pool, trained
from tests.helpers.studies import record, save, training

NOTE = "growth of the resident set"


def _row(folder: Path, one: Record) -> Row:
    (row,) = phrases.as_rows(derived(save([one], folder)))
    return row


def _stack(folder: Path, **columns: Any) -> dict[str, float]:
    row = _row(folder, record("eager", **(memory(1000, 300) | columns)))
    parts = made_of.stack(row)
    assert sum(size for _, size in parts) == row["peak_bytes"]
    return dict(parts)


def test_parts_of_memory_add_up_to_the_peak_in_inference(tmp_path: Path) -> None:
    assert _stack(tmp_path / "plain") == {"weights": 1000, "inputs": 10, "step": 300}
    assert _stack(tmp_path / "kept", resident_bytes=1500)["kept"] == 490
    saved = _stack(tmp_path / "saved", saved_activation_bytes=200)
    assert (saved["saved"], saved["step"]) == (200, 100)
    casted = _stack(tmp_path / "casted", autocast_copy_bytes=120)
    assert (casted["copies"], casted["step"]) == (120, 180)


def _trained(folder: Path, **columns: Any) -> tuple[dict[str, float], ...]:
    row = _row(folder, training("eager", **(trained(1000, 300, 1100, 500) | columns)))
    stacks = made_of.lanes(row)
    totals = [sum(size for _, size in stack) for stack in stacks]
    assert totals == [row["peak_bytes"], row["resident_bytes"]][: len(totals)]
    return tuple(dict(stack) for stack in stacks)


def test_parts_of_a_training_step_add_up_to_its_peak_and_to_the_bytes_held(tmp_path: Path) -> None:
    held = {"weights": 1000, "inputs": 10, "state": 500}
    peak, between = _trained(tmp_path / "plain")
    assert peak == held | {"saved": 1100, "step": 200}
    assert between == held | {"gradients": 1000}
    peak, between = _trained(tmp_path / "kept", resident_bytes=2600)
    assert (peak["kept"], between["kept"]) == (90, 90)
    peak, _ = _trained(tmp_path / "low", step_peak_bytes=0, saved_activation_bytes=400)
    assert (peak["saved"], peak["step"]) == (400, 600)  # gradients are back by the end
    (only,) = _trained(tmp_path / "unseen", gradient_bytes=None)
    assert (only["kept"], only["saved"]) == (1000, 300)


def test_casts_saved_for_backward_are_counted_once(tmp_path: Path) -> None:
    both = _stack(tmp_path, saved_activation_bytes=200, autocast_copy_bytes=120)
    assert both == {"weights": 1000, "inputs": 10, "saved": 200, "step": 100}


def test_a_replay_allocates_nothing_and_counts_the_free_part_of_its_pool(tmp_path: Path) -> None:
    planted = {"step_peak_bytes": 0, "saved_activation_bytes": 200, "device": "cuda"}
    replayed = _stack(tmp_path, resident_bytes=1110, **planted, **pool(400, 100))
    # 100 of the pool are among the 1110 held between calls; 300 are free for replays
    assert replayed == {"weights": 1000, "inputs": 10, "kept": 100, "pool": 300}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"device": "cpu"}, 1310),
        ({"device": "cpu"} | pool(400, 100), 1310),  # a CPU has no such pools
        ({"device": "cuda"} | pool(0, 0), 1310),
        ({"device": "cuda", "graph_pool_bytes": 0}, 1310),
        ({"device": "cuda"} | pool(400, 100), 1610),
        ({"device": "cuda"} | pool(400, 400), 1310),
        ({"device": "cuda", "graph_pool_bytes": 400}, None),
        ({"device": "cuda"}, None),
    ],
    ids=str,
)
def test_the_peak_includes_the_free_part_of_a_pool_or_is_unknown(
    tmp_path: Path, columns: dict[str, Any], expected: float | None
) -> None:
    rows = derived(save([record("eager", **memory(1000, 300), **columns)], tmp_path))
    (peak,) = rows["peak_bytes"]
    assert math.isnan(peak) if expected is None else peak == expected


def test_unknown_parts_go_to_the_rest_or_make_the_peak_unknown(tmp_path: Path) -> None:
    unseen = {"autocast_copy_bytes": None, "saved_activation_bytes": None, "weights_bytes": None}
    assert _stack(tmp_path / "unseen", **unseen) == {"inputs": 10, "kept": 1000, "step": 300}
    for name in ("resident_bytes", "step_peak_bytes"):
        lost = record("eager", **(memory(1000, 300) | {name: None}))
        assert math.isnan(derived(save([lost], tmp_path / name))["peak_bytes"][0])


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"device": "cuda", "setup_peak_bytes": 500}, 1510.0),
        ({"device": "cuda", "setup_peak_bytes": 300}, 1310.0),  # the steady peak
        ({"device": "cuda", "setup_peak_bytes": 299}, None),  # below it: more was held before
        ({"device": "cpu", "setup_peak_bytes": 500, "setup_peak_note": NOTE}, None),
        ({"device": "cuda", "setup_peak_bytes": 500, "setup_peak_note": NOTE}, None),
        ({"device": "cuda", "setup_peak_bytes": None}, None),
        ({"device": "cuda", "setup_peak_bytes": 500, "weights_bytes": None}, None),
    ],
)
def test_only_a_setup_peak_of_the_allocator_is_comparable(
    tmp_path: Path, columns: dict[str, Any], expected: float | None
) -> None:
    planted = memory(1000, 300) | pool(0, 0) | columns
    row = _row(tmp_path, record("eager", **planted))
    assert made_of.setup_bytes(row) == expected

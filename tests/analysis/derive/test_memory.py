"""The parts of memory, which add up to the peak."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modescope.analysis.derive import memory as memory_parts
from tests.helpers.derivations import rows_of_each, values_of_each
from tests.helpers.pass_columns import memory, pool, trained
from tests.helpers.studies import record, training


def _stacks(folder: Path, *changes: dict[str, Any]) -> list[dict[str, float]]:
    records = (record("eager", **(memory(1000, 300) | columns)) for columns in changes)
    rows = rows_of_each(folder, records)
    stacks = list(map(memory_parts.stack, rows))
    totals = [sum(size for _, size in stack) for stack in stacks]
    assert totals == [row["peak_bytes"] for row in rows]
    return list(map(dict, stacks))


def test_parts_of_memory_add_up_to_the_peak_in_inference(tmp_path: Path) -> None:
    replayed = {"step_peak_bytes": 0, "saved_activation_bytes": 200, "device": "cuda"}
    unseen = ("autocast_copy_bytes", "saved_activation_bytes", "weights_bytes")
    assert _stacks(
        tmp_path,
        {},
        {"resident_bytes": 1500},
        {"saved_activation_bytes": 200},
        {"autocast_copy_bytes": 120},
        {"saved_activation_bytes": 200, "autocast_copy_bytes": 120},  # casts are counted once
        # 100 of the pool are among the 1110 held between calls; 300 are free for replays
        {"resident_bytes": 1110, **replayed, **pool(400, 100)},
        dict.fromkeys(unseen),
    ) == [
        {"weights": 1000, "inputs": 10, "step": 300},
        {"weights": 1000, "inputs": 10, "kept": 490, "step": 300},
        {"weights": 1000, "inputs": 10, "saved": 200, "step": 100},
        {"weights": 1000, "inputs": 10, "copies": 120, "step": 180},
        {"weights": 1000, "inputs": 10, "saved": 200, "step": 100},
        {"weights": 1000, "inputs": 10, "kept": 100, "pool": 300},
        {"inputs": 10, "kept": 1000, "step": 300},
    ]


def test_workspaces_are_told_apart_from_what_else_is_kept(tmp_path: Path) -> None:
    kept = {"resident_bytes": 1110, "workspace_bytes": 70}
    [row] = rows_of_each(tmp_path, [record("eager", **memory(1000, 300) | kept)])
    parts = {"weights": 1000, "inputs": 10, "workspaces": 70, "kept": 30, "step": 300}
    assert dict(memory_parts.stack(row)) == parts


def test_parts_of_a_training_step_add_up_to_its_peak(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"resident_bytes": 2600},
        {"step_peak_bytes": 0, "saved_activation_bytes": 400},
        {"gradient_bytes": None},
    ]
    records = (training("eager", **(trained(1000, 300, 1100, 500) | one)) for one in changes)
    rows = rows_of_each(tmp_path, records)
    plain, kept, low, unseen = (dict(memory_parts.stack(row)) for row in rows)
    totals = [sum(stack.values()) for stack in (plain, kept, low, unseen)]
    assert totals == [row["peak_bytes"] for row in rows]
    assert plain == {"weights": 1000, "inputs": 10, "state": 500, "saved": 1100, "step": 200}
    assert kept["kept"] == 90
    assert (low["saved"], low["step"]) == (400, 600)  # gradients are back by the end
    assert (unseen["kept"], unseen["saved"]) == (1000, 300)


def test_the_peak_includes_the_free_part_of_a_pool_or_is_unknown(tmp_path: Path) -> None:
    planted: list[tuple[dict[str, Any], float | None]] = [
        ({"device": "cpu"} | pool(400, 100), 1310),  # a CPU has no such pools
        ({"device": "cuda"} | pool(0, 0), 1310),
        ({"device": "cuda"} | pool(400, 100), 1610),
        ({"device": "cuda", "graph_pool_bytes": 400}, None),
        ({"resident_bytes": None}, None),
    ]
    records = (record("eager", **memory(1000, 300) | columns) for columns, _ in planted)
    found = values_of_each(tmp_path, "peak_bytes", records)
    assert found == [expected for _, expected in planted]

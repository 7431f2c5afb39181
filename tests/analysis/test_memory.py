from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from analysis import memory as made_of
from analysis.metrics import derived
from bench.records import Record
from tests.analysis.passes import cpu_passes, cuda_passes, memory, pool, trained
from tests.analysis.studies import record, save, training

NOTE = "growth of the resident set"


def _charted(folder: Path, *records: Record) -> list[Any]:
    return made_of.charted(derived(save(records, folder)))


def _stack(folder: Path, **columns: Any) -> dict[str, float]:
    (row,) = _charted(folder, record("eager", **(memory(1000, 300) | columns)))
    parts = made_of.stack(row)
    assert sum(size for _, size in parts) == row["peak_bytes"]
    return dict(parts)


def test_the_parts_add_up_to_the_peak(tmp_path: Path) -> None:
    assert _stack(tmp_path / "plain") == {"weights": 1000, "inputs": 10, "step": 300}
    assert _stack(tmp_path / "kept", resident_bytes=1500)["kept"] == 490
    saved = _stack(tmp_path / "saved", saved_activation_bytes=200)
    assert (saved["saved"], saved["step"]) == (200, 100)
    casted = _stack(tmp_path / "casted", autocast_copy_bytes=120)
    assert (casted["copies"], casted["step"]) == (120, 180)


def _trained(folder: Path, **columns: Any) -> tuple[dict[str, float], ...]:
    (row,) = _charted(folder, training("eager", **(trained(1000, 300, 1100, 500) | columns)))
    stacks = made_of.lanes(row)
    totals = [sum(size for _, size in stack) for stack in stacks]
    assert totals == [row["peak_bytes"], row["resident_bytes"]][: len(totals)]
    return tuple(dict(stack) for stack in stacks)


def test_a_step_s_sources_add_up_to_its_peak_and_to_what_is_held(tmp_path: Path) -> None:
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


def test_what_training_holds_between_steps_is_told(tmp_path: Path) -> None:
    def told(folder: str, *records: Record) -> str:
        return str(made_of.reading(derived(save(records, tmp_path / folder))))

    steps = [training(mode, **trained(4096, 300, 100, 8192)) for mode in ("eager", "compile")]
    same = told("same", *steps)
    assert "held between two steps: gradients (4.00 KiB) and optimizer state (8.00 KiB)." in same
    sgd = [training("eager", **trained(4096, 300, 100)), training("compile", **trained(2048, 9, 9))]
    each = told("each", *sgd)
    assert "two steps: gradients (eager fp32 4.00 KiB, compile fp32 2.00 KiB)." in each
    assert "held between" not in told("inference", record("eager", **memory(1000, 300)))


def test_casts_that_backward_needs_are_not_counted_twice(tmp_path: Path) -> None:
    both = _stack(tmp_path, saved_activation_bytes=200, autocast_copy_bytes=120)
    assert both == {"weights": 1000, "inputs": 10, "saved": 200, "step": 100}


def test_a_replay_takes_nothing_and_needs_what_its_pool_keeps_free(tmp_path: Path) -> None:
    planted = {"step_peak_bytes": 0, "saved_activation_bytes": 200, "device": "cuda"}
    replayed = _stack(tmp_path, resident_bytes=1110, **planted, **pool(400, 100))
    # 100 of the pool are among the 1110 that tensors hold between calls; 300 are room for replays
    assert replayed == {"weights": 1000, "inputs": 10, "kept": 100, "pool": 300}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"device": "cpu"}, 1310),
        ({"device": "cpu"} | pool(400, 100), 1310),  # of which a CPU has none
        ({"device": "cuda"} | pool(0, 0), 1310),
        ({"device": "cuda", "graph_pool_bytes": 0}, 1310),
        ({"device": "cuda"} | pool(400, 100), 1610),
        ({"device": "cuda"} | pool(400, 400), 1310),
        ({"device": "cuda", "graph_pool_bytes": 400}, None),
        ({"device": "cuda"}, None),
    ],
    ids=str,
)
def test_a_pool_s_free_part_is_in_the_peak_or_the_peak_unknown(
    tmp_path: Path, columns: dict[str, Any], expected: float | None
) -> None:
    rows = derived(save([record("eager", **memory(1000, 300), **columns)], tmp_path))
    (peak,) = rows["peak_bytes"]
    assert math.isnan(peak) if expected is None else peak == expected


def test_unknown_parts_are_the_rest_and_an_unknown_peak_is_not_charted(tmp_path: Path) -> None:
    unseen = {"autocast_copy_bytes": None, "saved_activation_bytes": None, "weights_bytes": None}
    assert _stack(tmp_path / "unseen", **unseen) == {"inputs": 10, "kept": 1000, "step": 300}
    for name in ("resident_bytes", "step_peak_bytes"):
        lost = record("eager", **(memory(1000, 300) | {name: None}))
        assert math.isnan(derived(save([lost], tmp_path / name))["peak_bytes"][0])
        assert _charted(tmp_path / name) == []


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
def test_only_the_allocator_s_setup_peak_is_on_the_scale(
    tmp_path: Path, columns: dict[str, Any], expected: float | None
) -> None:
    planted = memory(1000, 300) | pool(0, 0) | columns
    (row,) = _charted(tmp_path, record("eager", **planted))
    assert made_of.setup_bytes(row) == expected


def test_a_setup_peak_that_says_nothing_is_not_told_as_one_of_unknown_start(tmp_path: Path) -> None:
    low = memory(1000, 300, setup_peak_bytes=200) | pool(0, 0)
    told = made_of.reading(derived(save([record("eager", device="cuda", **low)], tmp_path)))
    assert told is not None
    assert "Setup" not in told


def test_least_and_most_are_named_with_what_is_saved(tmp_path: Path) -> None:
    told = made_of.reading(derived(save(cpu_passes(), tmp_path)))
    assert told == (
        "Least at its peak: compile fp32, 14.1 MiB; most: eager fp32, 18.1 MiB; saved for a "
        "backward: eager fp32 4.00 MiB. Setup is not charted: 90.0 MiB at most, by eager fp32 "
        "(growth of the resident set)."
    )


def test_what_holds_a_graph_pool_is_ranked_with_it(tmp_path: Path) -> None:
    told = made_of.reading(derived(save(cuda_passes(), tmp_path)))
    # 64.64 MiB of weights and inputs; 9 for a call, or 2 held and 12 or 20 free in a pool
    assert told == (
        "Least at its peak: eager fp32, no_grad fp32, inference_mode fp32, compile fp32, 73.6 MiB; "
        "most: cuda-graph fp32, 86.6 MiB; saved for a backward: eager fp32 6.00 MiB; kept free "
        "in a graph pool, for its replays alone: reduce-overhead fp32 12.0 MiB, cuda-graph fp32 "
        "20.0 MiB."
    )


def test_a_pool_of_unknown_use_is_named_and_its_row_not_charted(tmp_path: Path) -> None:
    known = record("eager", device="cuda", **memory(1000, 300), **pool(0, 0))
    unknown = record("cuda-graph", device="cuda", **memory(1000, 0), graph_pool_bytes=400)
    rows = derived(save([known, unknown], tmp_path))
    assert [row["mode"] for row in made_of.charted(rows)] == ["eager"]
    told = made_of.reading(rows)
    assert told is not None
    assert told.endswith("peak unknown, as is what lives in the graph pool: cuda-graph fp32.")


def test_nothing_is_said_of_what_was_not_measured_or_does_not_count(tmp_path: Path) -> None:
    assert made_of.reading(derived(save([record()], tmp_path / "a"))) is None
    wrong = record("compile", in_effect=False, **memory(1000, 300))
    assert made_of.reading(derived(save([wrong], tmp_path / "b"))) is None
    alone = record("no_grad", **memory(2048, 1024))
    assert made_of.reading(derived(save([alone], tmp_path / "c"))) == (
        "The same peak: no_grad fp32, 3.02 KiB; none is known to save activations for a backward."
    )

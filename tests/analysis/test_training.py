"""Steps of training by their parts: worked out by hand from planted blocks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis import training as made_of
from analysis.metrics import derived
from analysis.training_reading import reading
from bench.records import Record
from tests.analysis.passes import cpu_training, cuda_training
from tests.analysis.studies import blocks, not_measured, record, replicates, save, training

US = 1e-6
END = 7 / 11  # of the spread of twelve blocks lies within their interval
SURE: dict[str, Any] = {"spread": 0.002}


def _rows(folder: Path, *records: Record) -> pd.DataFrame:
    return derived(save(records, folder))


def _row(folder: Path, one: Record) -> dict[str, Any]:
    (row,) = _rows(folder, one).to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_parts_are_medians_with_their_intervals(tmp_path: Path) -> None:
    parts_s = (400 * US, 600 * US, 200 * US, 50 * US)
    row = _row(tmp_path, training("amp", 1000 * US, parts_s=parts_s, part_spread=0.01))
    for name, seconds in zip(made_of.PARTS, parts_s, strict=True):
        assert row[f"{name}_s"] == pytest.approx(seconds)
        assert row[f"{name}_ci_low_s"] == pytest.approx(seconds * (1 - 0.01 * END))
        assert row[f"{name}_ci_high_s"] == pytest.approx(seconds * (1 + 0.01 * END))


@pytest.mark.parametrize(
    ("parts_us", "ratio", "residual_us"),
    [
        ((400, 600, 200), 1.2, -200),
        ((400, 300, 100), 0.8, 200),
        ((400, 600, 200, 50), 1.25, -250),  # a GradScaler's part is one of them
    ],
)
def test_what_the_parts_leave_of_the_undivided_step_is_never_hidden(
    tmp_path: Path, parts_us: tuple[float, ...], ratio: float, residual_us: float
) -> None:
    parts_s = [part * US for part in parts_us]
    row = _row(tmp_path, training("eager", 1000 * US, 1.0, parts_s))
    assert row["parts_ratio"] == pytest.approx(ratio, rel=1e-4)
    assert row["parts_residual_s"] == pytest.approx(residual_us * US, rel=1e-3)


def test_a_scaler_whose_scale_is_unknown_has_its_part(tmp_path: Path) -> None:
    parts_s = (400 * US, 300 * US, 200 * US, 100 * US)
    row = _row(tmp_path, training("amp", 1000 * US, parts_s=parts_s, loss_scale=None))
    assert row["parts_ratio"] == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize(
    "columns",
    [
        {"forward_rounds_s": None},
        {"backward_rounds_s": None},
        {"optimizer_rounds_s": None},
        {"loss_scale": 1024.0},  # a GradScaler whose part was not read
        {"latency_rounds_s": None, "baseline_latency_rounds_s": None},
        {"status": "wrong_result", "reason": "the gradient of a weight is off"},
    ],
    ids=str,
)
def test_parts_that_are_not_all_known_are_not_added_up(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    row = _row(tmp_path, training("eager", **columns))
    assert math.isnan(row["parts_ratio"])
    assert math.isnan(row["parts_residual_s"])


def test_inference_has_no_parts(tmp_path: Path) -> None:
    row = _row(tmp_path, record())
    names = [*(f"{name}_s" for name in made_of.PARTS), "parts_ratio", "parts_residual_s"]
    assert [name for name in names if pd.notna(row[name])] == []
    assert made_of.charted(_rows(tmp_path, record())) == []


def test_parts_are_held_against_the_step_of_their_own_process(tmp_path: Path) -> None:
    """Two processes of unlike pace: in each the parts are 1.2 of the step."""
    slow = training("eager", 2000 * US, 1.0, (800 * US, 1200 * US, 400 * US), replicate=1)
    (row,) = _rows(tmp_path, training("eager", 1000 * US, 1.0), slow).to_dict("records")
    assert row["replicates"] == 2
    assert row["parts_ratio"] == pytest.approx(1.2, rel=1e-4)
    assert row["forward_s"] == pytest.approx(math.sqrt(400 * 800) * US)
    assert row["parts_residual_s"] == pytest.approx(-0.2 * math.sqrt(1000 * 2000) * US, rel=1e-3)


def test_replicates_of_inference_still_combine(tmp_path: Path) -> None:
    (row,) = _rows(tmp_path, *replicates(5)).to_dict("records")
    assert math.isnan(row["parts_ratio"])


def _gains(folder: Path, *records: Record) -> dict[str, Any]:
    return {one.row["mode"]: one.parts for one in made_of.against_eager(_rows(folder, *records))}


EAGER = training("eager", 1200 * US, 1.0, **SURE)


def test_a_mode_gains_in_a_part_what_its_share_and_speedup_say(tmp_path: Path) -> None:
    """Its process ran at half of eager's pace, which both sides of its own pair saw."""
    compiled = training("compile", 1600 * US, 1.5, (400 * US, 800 * US, 400 * US), **SURE)
    parts = _gains(tmp_path, EAGER, compiled)["compile"]
    planted = {"forward": 2.0, "backward": 1.5, "optimizer": 1.0}
    for name, gain in planted.items():
        assert parts[name].value == pytest.approx(gain, rel=1e-3)
        assert parts[name].low < gain < parts[name].high
    assert parts["scaler"] is None


def test_its_interval_is_the_worst_case_of_all_that_goes_into_it(tmp_path: Path) -> None:
    rows = _rows(tmp_path, EAGER, training("compile", 800 * US, 1.5, **SURE)).set_index("mode")
    eager, row = rows.loc["eager"], rows.loc["compile"]
    (one,) = made_of.against_eager(rows.reset_index())
    low = row["speedup_ci_low"] / eager["speedup_ci_high"]
    low *= eager["forward_ci_low_s"] / eager["latency_ci_high_s"]
    low /= row["forward_ci_high_s"] / row["latency_ci_low_s"]
    gain = one.parts["forward"]
    assert gain is not None
    assert gain.low == pytest.approx(low)


def test_amp_is_held_against_eager_of_its_baseline(tmp_path: Path) -> None:
    amp = training("amp", 2400 * US, 0.5, (400 * US, 1600 * US, 400 * US), **SURE)
    other = training("eager", 600 * US, 1.0, dtype="bf16", baseline_dtype="bf16", **SURE)
    parts = _gains(tmp_path, EAGER, other, amp)["amp"]
    assert parts["forward"].value == pytest.approx(1.0, rel=1e-3)
    assert parts["backward"].value == pytest.approx(600 / 1600, rel=1e-3)


@pytest.mark.parametrize(
    "differs",
    [
        {"optimizer": "adamw"},
        {"training": '{"checkpoint":"model"}'},
        {"shape": '{"batch":5}'},
        {"grad": "no_grad"},
        {"baseline_mode": "no_grad"},
        {"baseline_dtype": "bf16", "dtype": "bf16"},
        {"in_effect": False},
        {"budget": "smoke"},
        {"status": "wrong_result", "reason": "why"},
        {"rounds": 5},
        {"forward_rounds_s": None},
    ],
    ids=lambda differs: next(iter(differs)),
)
def test_only_a_trusted_step_of_the_same_options_is_the_reference(
    tmp_path: Path, differs: dict[str, Any]
) -> None:
    other = training("eager", 1200 * US, 1.0, **(SURE | differs))
    assert _gains(tmp_path, other, training("compile", 800 * US, 1.5, **SURE)) == {}


def test_what_the_parts_say_is_told(tmp_path: Path) -> None:
    rows = _rows(tmp_path, *cpu_training())
    assert reading(rows) == (
        "Longest part, with its share of all parts: backward in eager fp32 (52 %), amp bf16 "
        "(52 %), compile fp32 (53 %) and amp-compile bf16 (53 %). Times as fast as in eager fp32: "
        "forward 0.71× in amp bf16, 1.48× in compile fp32, 0.91× in amp-compile bf16; backward "
        "0.79× in amp bf16, 1.27× in compile fp32, 0.93× in amp-compile bf16; optimizer left open "
        "by the intervals in amp bf16, compile fp32 and amp-compile bf16. Each waited for, the "
        "parts add up to 101 % (compile fp32) to 105 % (amp bf16) of the undivided step."
    )


def test_steps_that_could_not_be_taken_apart_are_named_with_the_reason(tmp_path: Path) -> None:
    told = reading(_rows(tmp_path, *cuda_training()))
    assert told is not None
    assert told.endswith("Not taken apart: cuda-graph fp32 (the whole step is one CUDA graph).")
    assert "optimizer in compile fp32 (46 %) and reduce-overhead fp32 (62 %)" in told


def test_a_note_beside_known_parts_is_told(tmp_path: Path) -> None:
    noted = training("compile", parts_note="forward waits for its graph")
    told = reading(_rows(tmp_path, EAGER, noted))
    assert told is not None
    assert told.endswith("To know about the parts: compile fp32 (forward waits for its graph).")


@pytest.mark.parametrize(
    ("forward_us", "backward_us", "expected"),
    [
        (500, 600, "backward in eager fp32 (46 %)"),
        (600, 600, "left open by the intervals in eager fp32"),
        (500, None, "left open by the intervals in eager fp32"),  # three blocks: no interval
    ],
)
def test_which_part_is_longest_is_decided_on_intervals(
    tmp_path: Path, forward_us: float, backward_us: float | None, expected: str
) -> None:
    few: dict[str, Any] = (
        {"backward_rounds_s": blocks(600 * US, count=3)} if backward_us is None else {}
    )
    parts_s = (forward_us * US, (backward_us or 600) * US, 200 * US)
    told = reading(_rows(tmp_path, training("eager", 1200 * US, 1.0, parts_s, **few)))
    assert told is not None
    assert f"share of all parts: {expected}. Each" in told


def test_what_is_left_open_comes_last(tmp_path: Path) -> None:
    close = training("eager", 1200 * US, 1.0, (600 * US, 600 * US, 100 * US))
    told = reading(_rows(tmp_path, close, training("compile")))
    assert told is not None
    assert "backward in compile fp32 (50 %); left open by the intervals in eager fp32." in told


def test_nothing_is_said_where_no_step_was_taken_apart(tmp_path: Path) -> None:
    assert reading(_rows(tmp_path / "a", training("cuda-graph", parts_s=None))) is None
    wrong = not_measured("compile", "wrong_result", "why", phase="train")
    assert reading(_rows(tmp_path / "b", wrong)) is None
    assert reading(_rows(tmp_path / "c", training("eager", in_effect=False))) is None

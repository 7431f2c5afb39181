from __future__ import annotations

from pathlib import Path

import pytest

from analysis import verdicts
from analysis.metrics import derived
from bench.records import Record
from tests.analysis.studies import cpu_sweep, not_measured, record, save


def _verdict(folder: Path, *records: Record) -> str:
    return verdicts.verdict(derived(save(records, folder)))


def test_the_winner_is_named_with_its_interval_and_its_price(tmp_path: Path) -> None:
    fp32 = [one for one in cpu_sweep() if one.work.dtype == "fp32"]
    assert _verdict(tmp_path, *fp32) == (
        "compile is faster than eager fp32: 1.311× [1.302, 1.320]; first call 7.20 s, pays after "
        "64,800 calls."
    )


def test_the_winner_has_the_highest_lower_end_and_overlaps_are_named(tmp_path: Path) -> None:
    told = _verdict(
        tmp_path,
        record("compile", speedup=1.30, spread=0.01),
        record("max-autotune", speedup=1.32, spread=0.2),  # higher middle, wide interval
        record("no_grad", speedup=1.10),
    )
    assert told.startswith("compile is faster")
    assert told.endswith("Not told apart from it, as the intervals overlap: max-autotune.")


def test_modes_within_the_margin_are_said_to_be_so(tmp_path: Path) -> None:
    same = [record(mode, speedup=1.001, spread=0.004) for mode in ("no_grad", "compile")]
    assert _verdict(tmp_path, *same) == (
        "No mode differs from eager fp32 by more than ±1 % on this data (2)."
    )


def test_what_cannot_be_said_is_not_said(tmp_path: Path) -> None:
    told = _verdict(tmp_path, record("compile", speedup=1.3, spread=2.0), record("amp", speedup=0.5,
                    dtype="fp32"))  # fmt: skip
    assert told.startswith("No mode is shown to be faster than eager fp32.")
    assert "Slower: amp" in told
    assert "cannot be said: compile" in told


def test_without_a_run_that_counts_nothing_is_said(tmp_path: Path) -> None:
    told = _verdict(
        tmp_path,
        record("reduce-overhead", speedup=2.0, in_effect=False, in_effect_note="no graphs"),
        record("compile", speedup=2.0, budget="smoke"),
        not_measured("cuda-graph", "skipped", "needs CUDA"),
    )
    assert told.startswith("Nothing can be said")
    for reason in ("1 not in effect", "1 skipped", "1 budget=smoke"):
        assert reason in told


@pytest.mark.parametrize(
    ("speedup", "expected"),
    [(1.0, "Noise floor: eager fp32 against itself reads 1.000×"), (1.05, "Warning: eager fp32")],
)
def test_the_control_is_the_noise_floor_or_a_warning(
    tmp_path: Path, speedup: float, expected: str
) -> None:
    rows = derived(save([record("eager", speedup=speedup), record("compile")], tmp_path))
    (told,) = verdicts.controls(rows)
    assert told.startswith(expected)
    assert verdicts.verdict(rows).startswith("compile is faster")


def test_a_missing_control_is_said(tmp_path: Path) -> None:
    (told,) = verdicts.controls(derived(save([record("compile")], tmp_path)))
    assert told.startswith("Noise floor unknown")


def test_flags_of_the_winner_are_named(tmp_path: Path) -> None:
    told = _verdict(tmp_path, record("compile", speedup=2.0, flags=("drift",)))
    assert told.endswith("It was flagged: drift.")

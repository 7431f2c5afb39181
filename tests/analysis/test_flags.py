from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.flags import FLAGS, meanings
from analysis.metrics import derived
from tests.analysis.studies import blocks, cpu_clocks, cuda_clocks, record, save


def _flags(folder: Path, latency_s: float, **columns: Any) -> list[str]:
    (row,) = derived(save([record("eager", latency_s, 1.0, **columns)], folder)).to_dict("records")
    return list(row["flags"])


BROKEN = ["broken_invariant"]


@pytest.mark.parametrize(
    ("host", "pipelined", "expected"),
    [
        (100e-6, 100e-6, []),
        (104e-6, 97e-6, BROKEN),  # 7 % between host and pipelined
        (104e-6, 103e-6, []),
        (107e-6, 107e-6, BROKEN),  # both 7 % above the latency
        (93e-6, 93e-6, BROKEN),
        (None, 107e-6, []),  # as of files that had no such clocks
    ],
)
def test_on_a_cpu_all_clocks_agree(
    tmp_path: Path, host: float | None, pipelined: float, expected: list[str]
) -> None:
    clocks = cpu_clocks(100e-6, None) | {
        "host_rounds_s": None if host is None else blocks(host, spread=0.001),
        "pipelined_rounds_s": blocks(pipelined, spread=0.001),
    }
    assert _flags(tmp_path, 100e-6, **clocks) == expected


@pytest.mark.parametrize(
    ("latency", "host", "device", "pipelined", "expected"),
    [
        (132e-6, 120e-6, 40e-6, 120e-6, []),
        (52e-6, 8e-6, 41e-6, 41e-6, []),
        (132e-6, 120e-6, 40e-6, 128e-6, BROKEN),  # pipelined 7 % above the slower one
        (132e-6, 120e-6, 40e-6, 112e-6, BROKEN),
        (112e-6, 120e-6, 40e-6, 120e-6, BROKEN),  # a call shorter than its host time
        (163e-6, 120e-6, 40e-6, 120e-6, []),  # at most 120 + 40 + 4
        (180e-6, 120e-6, 40e-6, 120e-6, BROKEN),
    ],
)
def test_on_cuda_the_slower_of_both_sets_the_pace(
    tmp_path: Path,
    latency: float,
    host: float,
    device: float,
    pipelined: float,
    expected: list[str],
) -> None:
    clocks = cuda_clocks(host, device) | {"pipelined_rounds_s": blocks(pipelined)}
    assert _flags(tmp_path, latency, **clocks) == expected


def test_noise_that_allows_agreement_breaks_nothing(tmp_path: Path) -> None:
    clocks = cpu_clocks(108e-6, None, spread=0.2)  # 108 us within 94 to 122
    assert _flags(tmp_path, 100e-6, **clocks) == []


def test_a_queue_that_cannot_be_held_is_flagged_and_nothing_else(tmp_path: Path) -> None:
    odd = cuda_clocks(120e-6, None, 50e-6) | {"pipelined_rounds_s": blocks(300e-6)}
    assert _flags(tmp_path, 132e-6, **odd) == ["not_isolable"]
    stored = cuda_clocks(120e-6, None) | {"flags": ("drift",)}
    assert _flags(tmp_path / "more", 132e-6, **stored) == ["drift", "not_isolable"]


def test_a_run_that_did_not_end_ok_raises_nothing(tmp_path: Path) -> None:
    wrong = {"status": "wrong_result", "reason": "why"}
    assert _flags(tmp_path, 132e-6, **cuda_clocks(120e-6, None), **wrong) == []


def test_meanings_are_one_sentence_each_and_pass_over_unknown_flags() -> None:
    assert list(meanings(["of_tomorrow", "bimodal", "drift"])) == ["drift", "bimodal"]
    assert all(meaning.endswith(".") and meaning.count(".") <= 3 for meaning in FLAGS.values())

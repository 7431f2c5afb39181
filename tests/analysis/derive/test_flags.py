from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from modescope.analysis.derive import flags
from modescope.analysis.derive.flags import FLAGS
from modescope.analysis.derive.profile import DOUBTS
from modescope.analysis.derive.registry import derived
from modescope.bench.case.profiler.contradictions import CHECKS
from modescope.bench.stats.diagnostics import DIAGNOSTICS
from modescope.bench.summary import RULES
from tests.helpers.paths import ROOT
from tests.helpers.studies import blocks, cpu_clocks, cuda_clocks, record, save

Numbers = NDArray[np.float64]


def _flags(folder: Path, latency_s: float, **columns: Any) -> list[str]:
    (row,) = derived(save([record("eager", latency_s, 1.0, **columns)], folder)).to_dict("records")
    return list(row["flags"])


BROKEN = ["broken_invariant"]


@pytest.mark.parametrize(
    ("host", "pipelined", "expected"),
    [
        (100e-6, 100e-6, []),
        (104e-6, 97e-6, []),
        (104e-6, 94e-6, BROKEN),
        (104e-6, 103e-6, []),
        (107e-6, 107e-6, BROKEN),  # both 7 % above the latency
        (93e-6, 93e-6, BROKEN),
        (None, 107e-6, []),  # as in files without these clocks
    ],
)
def test_clocks_that_disagree_on_a_cpu_are_flagged(
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
def test_latency_on_cuda_is_compared_with_the_slower_of_host_and_device(
    tmp_path: Path,
    latency: float,
    host: float,
    device: float,
    pipelined: float,
    expected: list[str],
) -> None:
    clocks = cuda_clocks(host, device) | {"pipelined_rounds_s": blocks(pipelined)}
    assert _flags(tmp_path, latency, **clocks) == expected


def test_overlapping_noisy_clocks_are_not_flagged(tmp_path: Path) -> None:
    clocks = cpu_clocks(108e-6, None, spread=0.2)  # 108 us within 94 to 122
    assert _flags(tmp_path, 100e-6, **clocks) == []


def test_a_missing_device_time_raises_only_its_own_flag(tmp_path: Path) -> None:
    odd = cuda_clocks(120e-6, None, 50e-6) | {"pipelined_rounds_s": blocks(300e-6)}
    assert _flags(tmp_path, 132e-6, **odd) == ["not_isolable"]
    stored = cuda_clocks(120e-6, None) | {"flags": ("drift",)}
    assert _flags(tmp_path / "more", 132e-6, **stored) == ["drift", "not_isolable"]


def test_a_run_that_did_not_end_ok_has_no_flags(tmp_path: Path) -> None:
    wrong = {"status": "wrong_result", "reason": "why"}
    assert _flags(tmp_path, 132e-6, **cuda_clocks(120e-6, None), **wrong) == []


FIRST = tuple(bool(first) for first in np.random.default_rng(5).permutation(np.arange(60) % 2))


def _rounds(case: float | Numbers, baseline: float | Numbers) -> dict[str, Any]:
    """60 paired rounds of 1 ms with 0.5 % noise, slower by the given logarithms."""
    noise = np.random.default_rng(0).normal(0, 0.005, (2, 60))
    return {
        "latency_rounds_s": tuple((1e-3 * np.exp(noise[0] + case)).tolist()),
        "baseline_latency_rounds_s": tuple((1e-3 * np.exp(noise[1] + baseline)).tolist()),
        "case_ran_first": FIRST,
    }


WANDERING = 0.04 * np.sin(np.arange(60) / 2)
DISTURBED: dict[str, dict[str, Any]] = {
    "drift": _rounds(np.linspace(0, 0.011, 60), 0),
    "autocorrelated": _rounds(WANDERING, 0),
    "bimodal": _rounds(0.05 * np.roll(FIRST, 1), 0),
    "order_effect": _rounds(np.where(FIRST, 0, 0.012), np.where(FIRST, 0.012, 0)),
}


@pytest.mark.parametrize("name", DIAGNOSTICS)
def test_disturbed_rounds_raise_their_flag(tmp_path: Path, name: str) -> None:
    assert _flags(tmp_path, 1e-3, **DISTURBED[name]) == [name]


def test_quiet_rounds_raise_no_flag(tmp_path: Path) -> None:
    assert _flags(tmp_path, 1e-3, **_rounds(0, 0)) == []


def test_without_a_baseline_the_durations_are_judged(tmp_path: Path) -> None:
    alone = {"baseline_latency_rounds_s": None, "case_ran_first": None}
    assert _flags(tmp_path, 1e-3, **_rounds(WANDERING, 0) | alone) == ["autocorrelated"]


RAMP, TWO_SPEEDS = np.linspace(0, 0.3, 60), 0.56 * np.roll(FIRST, 1)


@pytest.mark.parametrize("shared", [WANDERING, RAMP, TWO_SPEEDS], ids=["waves", "ramp", "speeds"])
def test_what_slows_case_and_baseline_alike_is_not_flagged(tmp_path: Path, shared: Any) -> None:
    assert _flags(tmp_path, 1e-3, **_rounds(shared, shared)) == []


def test_flags_of_rounds_and_of_clocks_are_combined(tmp_path: Path) -> None:
    odd = DISTURBED["drift"] | {**cpu_clocks(2e-3, None), "flags": ("no_steady_state", "drift")}
    raised = _flags(tmp_path, 1e-3, **odd)
    assert raised == ["no_steady_state", "drift", "broken_invariant"]


@pytest.mark.parametrize(
    "columns",
    [
        {"budget": "smoke"},
        {"status": "wrong_result", "reason": "why"},
        {name: rounds[:11] for name, rounds in DISTURBED["drift"].items()},
    ],
    ids=["smoke", "wrong_result", "too few"],
)
def test_incomplete_or_smoke_rounds_raise_no_flag(tmp_path: Path, columns: dict[str, Any]) -> None:
    assert _flags(tmp_path, 1e-3, **DISTURBED["drift"] | columns) == []


def _strings(node: ast.AST) -> set[str]:
    found = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return {value for value in found if isinstance(value, str)}


def _stored() -> Iterator[str]:
    """Flags that bench/ gives to `flags=` or to `flagged`, and those of profiles."""
    yield from ("profile_empty", *(name for name, _ in CHECKS))
    for path in (ROOT / "bench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            given = isinstance(node, ast.keyword) and node.arg == "flags"
            if given or (isinstance(node, ast.Call) and ast.unparse(node.func) == "flagged"):
                yield from _strings(node)


def _derived() -> Iterator[str]:
    """Flags of the tables, and of comparisons between rows."""
    yield from (*DIAGNOSTICS, *RULES, flags.GATE, flags.SLOW)


def test_every_flag_in_the_code_is_explained_and_no_other() -> None:
    assert {"no_steady_state", "baseline_wrong"} <= set(_stored())
    assert set(_stored()) >= DOUBTS
    assert set(_derived()) >= {"broken_invariant", "not_isolable", *DISTURBED}
    assert {*_stored(), *_derived()} == set(FLAGS)


def test_every_meaning_is_one_sentence() -> None:
    meanings = [flag.meaning for flag in FLAGS.values()]
    assert all(text.endswith(".") and text.count(".") <= 3 for text in meanings)

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bench
from analysis import flags
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


def _strings(node: ast.AST) -> set[str]:
    found = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return {value for value in found if isinstance(value, str)}


def _stored() -> Iterator[str]:
    """What bench/ gives to `flags=` or to `_flagged`."""
    for path in Path(bench.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            given = isinstance(node, ast.keyword) and node.arg == "flags"
            if given or (isinstance(node, ast.Call) and ast.unparse(node.func) == "_flagged"):
                yield from _strings(node)


def _derived() -> Iterator[str]:
    for node in ast.walk(ast.parse(inspect.getsource(flags.raised))):
        if isinstance(node, ast.List):
            yield from _strings(node)


def test_what_is_raised_is_explained_and_nothing_else() -> None:
    assert {"no_steady_state", "baseline_wrong"} <= set(_stored())
    assert set(_derived()) == {"broken_invariant", "not_isolable"}
    assert {*_stored(), *_derived()} == set(FLAGS)


def test_meanings_are_one_sentence_each_and_pass_over_unknown_flags() -> None:
    asked = ["of_tomorrow", "broken_invariant", "no_steady_state"]
    assert list(meanings(asked)) == ["no_steady_state", "broken_invariant"]
    assert all(meaning.endswith(".") and meaning.count(".") <= 3 for meaning in FLAGS.values())

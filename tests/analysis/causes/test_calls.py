"""Causes in the sizes of calls, and the figures that a mix of them has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.mix import mix_of
from modescope.analysis.format import phrases
from tests.helpers.cause_worlds.calls import VARIED
from tests.helpers.causes import codes, of_last, rows_of
from tests.helpers.studies import record


def _rows(tmp_path: Path, mode: str = "compile", speedup: float = 0.8, **columns: Any) -> Any:
    return rows_of([record(mode, speedup=speedup, **{**VARIED, **columns})], tmp_path)


def test_calls_in_eager_are_those_of_sizes_that_came_after_torch_gave_up(tmp_path: Path) -> None:
    found = of_last(_rows(tmp_path, gave_up_at_call=4, eager_calls="[4, 6]"))
    (one,) = (each for each in found if each.code == "eager_fallback")
    assert one.share == pytest.approx(14 / 20)  # lengths 40 and 80


def test_recompiling_for_a_new_size_is_told_once(tmp_path: Path) -> None:
    found = codes(of_last(_rows(tmp_path, recompile_reasons='["size mismatch"]')))
    assert "size_compiles" in found
    assert "recompiles" not in found


def test_padding_counts_what_it_adds(tmp_path: Path) -> None:
    padded = json.dumps({"seq": [20, 80]})
    (one,) = (each for each in of_last(_rows(tmp_path, calls_pad=padded)) if each.code == "padding")
    # 180 tokens become 20 + 20 + 20 + 80 + 20 + 80 = 240
    assert one.share == pytest.approx(0.25)
    assert "1.33 times" in one.sentence
    same = json.dumps({"seq": [10, 20, 40, 80]})
    assert "padding" not in codes(of_last(_rows(tmp_path / "same", calls_pad=same)))


def test_the_steady_time_of_each_call_is_that_of_its_size(tmp_path: Path) -> None:
    mix = mix_of(_rows(tmp_path)[-1])
    assert mix is not None
    assert mix.steady_s() == [1e-3, 2e-3, 1e-3, 4e-3, 2e-3, 10e-3]
    assert mix.steady_s(side=1) == [2e-3, 3e-3, 2e-3, 4e-3, 3e-3, 8e-3]


def test_the_first_pass_has_paid_after_calls_not_passes(tmp_path: Path) -> None:
    times: dict[str, Any] = {"first_call_s": 5.0, "baseline_first_call_s": 0.02, "speedup": 2.0}
    varied = _rows(tmp_path, **times)[-1]
    plain = _rows(tmp_path / "plain", **times, calls=None)[-1]
    assert varied["break_even_calls"] == pytest.approx(6 * plain["break_even_calls"])


def test_a_pass_is_named_by_its_calls(tmp_path: Path) -> None:
    assert "passes of 6 calls, seq 10 to 80" in phrases.work(_rows(tmp_path)[-1])

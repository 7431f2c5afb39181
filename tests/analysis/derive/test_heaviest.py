from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive import profile
from modescope.analysis.derive.profile import KINDS
from modescope.analysis.derive.registry import derived
from modescope.analysis.format import phrases
from tests.helpers.studies import record, save

KERNELS, OPERATORS = KINDS


def _listed(*named: tuple[str, float, float]) -> str:
    return json.dumps([{"name": name, "count": count, "seconds": s} for name, count, s in named])


def _seen(*kernels: tuple[str, float, float]) -> dict[str, Any]:
    return {"heaviest_kernels": _listed(*kernels), "kernels_s": 200e-6}


def test_the_heaviest_kernels_of_each_mode_have_shares(tmp_path: Path) -> None:
    rows = phrases.as_rows(derived(save([
        record("compile", in_effect=False, **_seen(("cpp_fused", 1.5, 50e-6))),
        record("eager", **_seen(("aten::addmm", 2, 120e-6), ("x" * 300, 1, 2e-6))),
        record("no_grad"),
    ], tmp_path)))  # fmt: skip
    first, second, third = profile.heaviest(rows, KERNELS)
    assert first == ("eager fp32", "aten::addmm", "2", "120 µs", "60 %")
    assert second[1] == "x" * 79 + "…"
    assert third == ("compile fp32", "cpp_fused", "1.5", "50.0 µs", "25 %")
    assert list(profile.heaviest(rows, OPERATORS)) == []


def test_operators_have_a_share_of_the_profiled_call(tmp_path: Path) -> None:
    planted: dict[str, Any] = {
        "heaviest_ops": _listed(("aten::linear", 4, 30e-6)),
        "profiled_span_s": 120e-6,
    }
    rows = phrases.as_rows(derived(save([record("eager", **planted)], tmp_path)))
    assert list(profile.heaviest(rows, OPERATORS)) == [
        ("eager fp32", "aten::linear", "4", "30.0 µs", "25 %")
    ]


@pytest.mark.parametrize(
    ("seconds", "whole_s", "expected"),
    [(200e-6, 200e-6, "100 %"), (200.1e-6, 200e-6, "100 %"), (203e-6, 200e-6, "–"),
     (1e-6, 0.0, "–"), (1e-6, None, "–")],
)  # fmt: skip
def test_no_share_is_above_one(
    tmp_path: Path, seconds: float, whole_s: float | None, expected: str
) -> None:
    planted = _seen(("a", 1, seconds)) | {"kernels_s": whole_s}
    rows = phrases.as_rows(derived(save([record("eager", **planted)], tmp_path)))
    ((*_, share),) = profile.heaviest(rows, KERNELS)
    assert share == expected


def test_only_the_heaviest_few_of_each_mode_are_listed(tmp_path: Path) -> None:
    many = _seen(*((f"k{n}", 1, 1e-6) for n in range(10)))
    rows = phrases.as_rows(derived(save([record("eager", **many)], tmp_path)))
    assert [line[1] for line in profile.heaviest(rows, KERNELS)] == ["k0", "k1", "k2", "k3", "k4"]

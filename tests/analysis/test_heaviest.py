from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from analysis import heaviest, words
from analysis.metrics import derived
from tests.analysis.studies import not_measured, record, save


def _seen(*kernels: tuple[str, float, float]) -> dict[str, Any]:
    told = [{"name": name, "count": count, "seconds": s} for name, count, s in kernels]
    return {"heaviest_kernels": json.dumps(told), "kernels_s": 200e-6}


def test_the_heaviest_of_each_mode_with_their_shares(tmp_path: Path) -> None:
    rows = words.as_rows(derived(save([
        record("compile", in_effect=False, **_seen(("cpp_fused", 1.5, 50e-6))),
        record("eager", **_seen(("aten::addmm", 2, 120e-6), ("x" * 300, 1, 2e-6))),
        record("no_grad"),
        not_measured("amp", "failed", "why"),
    ], tmp_path)))  # fmt: skip
    first, second, third = heaviest.table(rows)
    assert first == ["eager fp32", "aten::addmm", "2", "120 µs", "60 %"]
    assert second[1] == "x" * 79 + "…"
    assert third == ["compile fp32", "cpp_fused", "1.5", "50.0 µs", "25 %"]


def test_only_a_few_of_each_mode_are_told(tmp_path: Path) -> None:
    many = _seen(*((f"k{n}", 1, 1e-6) for n in range(10)))
    rows = words.as_rows(derived(save([record("eager", **many)], tmp_path)))
    assert [line[1] for line in heaviest.table(rows)] == ["k0", "k1", "k2", "k3", "k4"]

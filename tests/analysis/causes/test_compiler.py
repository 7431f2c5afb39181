"""Causes in what the compiler did: worlds in which each is there, and others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.causes import codes, of_last, profiled, rows_of
from tests.helpers.studies import cuda_clocks, record

BREAKS: dict[str, Any] = {
    "graph_breaks": 2,
    "graph_break_reasons": json.dumps(
        [{"place": "net.py:12", "reason": "print"}, {"place": None, "reason": "a loop"}]
    ),
    "eager_functions": "[]",
}


def _compiled(tmp_path: Path, mode: str = "compile", speedup: float = 0.8, **columns: Any) -> Any:
    return rows_of([record(mode, speedup=speedup, first_call_s=0.1, **columns)], tmp_path)


def test_a_graph_break_is_named_with_its_place_and_torchs_reason(tmp_path: Path) -> None:
    found = of_last(_compiled(tmp_path, **BREAKS))
    assert codes(found)[0] == "graph_breaks"
    assert found[0].sentence == (
        "the model is compiled in pieces, with 2 graph breaks: print at net.py:12 (and 1 more)."
    )
    assert codes(of_last(_compiled(tmp_path / "none", graph_breaks=0))) == []


def test_functions_in_eager_keep_their_kernels(tmp_path: Path) -> None:
    kernels = ("aten::add", 30, 40e-6), ("aten::addmm", 2, 20e-6), ("x_cpp_fused_gelu_0", 1, 10e-6)
    columns = {**BREAKS, **profiled(100e-6, *kernels), "eager_functions": '["Net.forward"]'}
    rows = _compiled(tmp_path, **columns)
    (found,) = of_last(rows)
    assert "; in eager: Net.forward" in found.sentence
    assert found.share == pytest.approx(0.4)  # without the product, which no compiler replaces
    found, *_ = of_last(rows, guards_s=5e-6, compiled_wrapper_s=25e-6)
    assert found.code == "graph_breaks"
    assert found.share == pytest.approx(0.7)


def test_a_slow_precision_explains_more_than_a_graph_break(tmp_path: Path) -> None:
    """Products take 90 of 120 us in bf16, 30 of 60 us in fp32; the break leaves 10 us to eager."""
    slow = profiled(120e-6, ("aten::addmm", 8, 90e-6), ("aten::gelu", 4, 10e-6))
    rows = rows_of(
        [
            record("inference_mode", 60e-6, 1.0, **profiled(60e-6, ("aten::addmm", 8, 30e-6))),
            record("amp-compile", 120e-6, 0.5, dtype="bf16", first_call_s=0.1, **slow,
                   **{**BREAKS, "eager_functions": '["Net.forward"]'}),
        ],
        tmp_path,
    )  # fmt: skip
    found = of_last(rows, cpu_instructions="avx2")
    assert codes(found)[0] == "no_native_dtype"
    assert "graph_breaks" in codes(found)[1:]


def test_guards_of_the_pieces_are_the_share_of_breaks(tmp_path: Path) -> None:
    rows = _compiled(tmp_path, **BREAKS, **profiled(100e-6, ("aten::add", 3, 60e-6)))
    found = of_last(rows, guards_s=3e-6, compiled_wrapper_s=27e-6)
    assert found[0].share == pytest.approx(0.3)


@pytest.mark.parametrize(("guards_s", "share"), [(None, None), (5e-6, 0.3)])
def test_on_cuda_kernels_are_no_part_of_what_breaks_cost(
    tmp_path: Path, guards_s: float | None, share: float | None
) -> None:
    """They run while the host works, and no name tells products from other kernels."""
    kernels = ("elementwise_kernel", 30, 20e-6), ("nvjet_tst_128x64_h_bz", 2, 60e-6)
    columns = BREAKS | profiled(100e-6, *kernels) | cuda_clocks(95e-6, 90e-6)
    rows = _compiled(tmp_path, **(columns | {"eager_functions": '["Net.forward"]'}))
    found = of_last(rows, guards_s=guards_s, compiled_wrapper_s=25e-6)
    (breaks,) = (one for one in found if one.code == "graph_breaks")
    assert breaks.share == (None if share is None else pytest.approx(share))


def test_recompilations_while_timing_weigh_most(tmp_path: Path) -> None:
    rows = _compiled(tmp_path, recompiles=2, **profiled(100e-6, ("aten::add", 3, 60e-6)))
    found = of_last(
        rows, recompile_reasons='["a global changed"]', guards_s=50e-6, compiled_wrapper_s=0.0
    )
    assert codes(found)[:2] == ["recompiles", "guards"]
    assert found[0].sentence == (
        "torch compiled again 2 times while calls were timed: a global changed."
    )


@pytest.mark.parametrize("reasons", [None, "[]"])
def test_without_recompilations_none_is_named(tmp_path: Path, reasons: str | None) -> None:
    rows = _compiled(tmp_path, recompiles=0)
    assert codes(of_last(rows, recompile_reasons=reasons)) == []
    assert codes(of_last(rows, recompile_reasons='["x"]')) == ["recompiles"]


@pytest.mark.parametrize(("seconds", "named"), [(40e-6, True), (5e-6, False)])
def test_operators_left_to_eager_are_named_by_their_share(
    tmp_path: Path, seconds: float, named: bool
) -> None:
    profile = profiled(100e-6, ("aten::sort", 1, seconds), ("x_cpp_fused_gelu_0", 1, 40e-6))
    rows = _compiled(tmp_path, **profile)
    found = of_last(rows, fallback_kernels='["aten.sort.stable", "aten.unique2.default"]')
    assert codes(found) == (["fallbacks"] if named else [])
    assert not named or "40 % of a call is operators that Inductor leaves to eager" in (
        found[0].sentence
    )
    assert codes(of_last(rows)) == []

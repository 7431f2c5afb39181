"""Which rows' causes are printed beneath a table."""

from __future__ import annotations

from pathlib import Path

from modescope.analysis.causes.important import most_important
from modescope.analysis.format import phrases
from tests.helpers.causes import rows_of
from tests.helpers.studies import record


def test_losers_come_first_then_modes_without_gain_then_gains_each_cause_once(
    tmp_path: Path,
) -> None:
    planted = [
        ("eager", 1.0, "grad_left_on"),
        ("max-autotune", 1.0, "not_graphed"),
        ("no_grad", 1.4, "no_autograd"),
        ("inference_mode", 1.5, "no_autograd;less_overhead"),
        ("compile", 1.0, "unchanged_kernels"),
        ("cuda-graph", 0.8, "more_overhead"),
        ("amp", 0.2, "casts"),
        ("amp-compile", 0.1, None),
    ]
    records = [record(mode, speedup=speedup, spread=0.002) for mode, speedup, _ in planted]
    rows = [
        {**row, "cause": cause, "in_effect": cause != "not_graphed"}
        for row, (_, _, cause) in zip(rows_of(records, tmp_path), planted, strict=True)
    ]
    assert [phrases.mode(row) for row in most_important(rows, 9)] == [
        "amp", "cuda-graph", "compile", "inference_mode", "max-autotune", "eager",
    ]  # fmt: skip
    assert [phrases.mode(row) for row in most_important(rows, 2)] == ["amp", "cuda-graph"]

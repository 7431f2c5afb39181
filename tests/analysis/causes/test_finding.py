"""The causes of rows: order, text, rows that have none, and which rows are named first."""

from __future__ import annotations

from pathlib import Path

import pytest

from modescope.analysis.causes.finding import find_causes, most_important
from modescope.analysis.causes.types import (
    COST,
    DECISIVE,
    GAIN,
    HINT,
    LOSS,
    PART,
    REST,
    SETTING,
    Cause,
    Context,
    Evidence,
)
from modescope.analysis.causes.verdicts import lead
from modescope.analysis.format import phrases
from tests.helpers.causes import codes, profiled, rows_of
from tests.helpers.studies import not_measured, record


def test_rows_without_a_result_or_with_a_smoke_budget_have_no_cause(tmp_path: Path) -> None:
    profile = profiled(1e-3, ("aten::_to_copy", 24, 820e-6))
    records = [
        record("amp", speedup=0.5, budget="smoke", **profile),
        not_measured("no_grad", "failed", "it did not compile"),
        record("compile", speedup=0.5, spread=0.002, first_call_s=0.1),
        record("eager", speedup=1.0),
    ]
    for row in rows_of(records, tmp_path):
        assert (row["cause"], row["cause_text"]) == (None, None)


def _planted(code: str, kind: int, share: float | None, sentence: str = "") -> Cause:
    def rule(case: Context) -> Evidence:
        return Evidence(share)

    rule.__name__ = code
    return Cause(kind, rule, sentence)


PLANTED = [
    _planted("hint", HINT, 0.9), _planted("part", PART, None), _planted("part of 0.2", PART, 0.2),
    _planted("cost", COST, 0.9), _planted("part of 0.5", PART, 0.5),
    _planted("decisive", DECISIVE, None), _planted("gain", GAIN, 0.1),
    _planted("loss", LOSS, 0.1),
]  # fmt: skip
PARTS = ["part of 0.5", "part of 0.2", "part"]


@pytest.mark.parametrize(
    ("speedup", "expected"),
    [
        (0.8, ["decisive", "gain", "loss", *PARTS, "cost", "hint"]),
        (
            1.05,
            ["decisive", "loss", *PARTS, "gain", "cost", "hint"],
        ),  # a reader asks why it is so little
        (2.0, ["decisive", "gain", "cost", "part of 0.5", "part of 0.2", "loss", "part", "hint"]),
    ],
)
def test_causes_are_ordered_by_kind_then_by_share(
    tmp_path: Path, speedup: float, expected: list[str]
) -> None:
    (row,) = rows_of([record("compile", speedup=speedup, spread=0.002)], tmp_path)
    assert codes(find_causes(Context(row), PLANTED)) == expected


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([("one", 0.45)], REST),
        ([("one", 0.5)], PART),
        ([("one", 0.2), ("other", 0.25)], REST),
        ([("one", 0.2), ("other", 0.3)], PART),
        ([("one", 0.1), ("other", None)], PART),
        # Two causes of the same overhead count once
        ([("guards", 0.3), ("more_overhead", 0.25)], REST),
        ([("guards", 0.5), ("more_overhead", 0.25)], PART),
    ],
)
def test_parts_explain_a_loss_if_together_they_are_most_of_it(
    tmp_path: Path, parts: list[tuple[str, float | None]], kind: int
) -> None:
    """A call of 2.8 times the baseline's loses 64 % of itself."""
    (row,) = rows_of([record("compile", speedup=1 / 2.8, spread=0.002)], tmp_path)
    found = find_causes(Context(row), [_planted(code, PART, share) for code, share in parts])
    assert {one.kind for one in found} == {kind}
    assert (f"{lead(row)};" in found[0].text) is (kind == REST)


@pytest.mark.parametrize(
    ("mode", "speedup", "spread", "expected"),
    [
        ("no_grad", 2.0, 0.02, "no_grad is 2.0 times faster than eager"),
        ("no_grad", 1.05, 0.002, "no_grad is only 5 % faster than eager"),
        ("no_grad", 0.95, 0.002, "no_grad gains nothing over eager, 0.950× [0.949, 0.951]"),
        ("no_grad", 1.0, 0.002, "no_grad is as fast as eager, 1.000× [0.999, 1.001]"),
        (
            "no_grad", 1.0, 0.2,
            "no_grad is not shown to be faster or slower than eager, 1.00× [0.94, 1.07]",
        ),
        ("no_grad", 0.5, 0.02, "no_grad is 2.0 times slower than eager"),
        (
            "compile", 0.5, 0.02,
            "compile is 2.0 times slower than eager, after a first call of 1.00 s, as long as "
            "5,600 calls of eager",
        ),
    ],
)  # fmt: skip
def test_the_lead_says_what_is_explained(
    tmp_path: Path, mode: str, speedup: float, spread: float, expected: str
) -> None:
    (row,) = rows_of([record(mode, 357e-6, speedup, spread=spread)], tmp_path)
    assert lead(row) == expected


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        (GAIN, " after a first call of 1.00 s, which pays after 2,800 calls: so it is."),
        (SETTING, " after a first call of 1.00 s, which pays after 2,800 calls; so it is."),
        (COST, "; so it is."),
    ],
)
def test_only_what_explains_the_speedup_follows_a_colon(
    tmp_path: Path, kind: int, after: str
) -> None:
    (row,) = rows_of([record("compile", 357e-6, 2.0)], tmp_path)
    text = find_causes(Context(row), [_planted("planted", kind, None, "so it is.")])[0].text
    assert text == f"compile is 2.0 times faster than eager{after}"


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

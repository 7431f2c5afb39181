"""The causes of rows: order, text, rows that have none, and which rows are named first."""

from __future__ import annotations

from pathlib import Path

import pytest

from modescope.analysis.causes.finding import find_causes, most_important
from modescope.analysis.causes.outcome import lead
from modescope.analysis.causes.types import Cause, Context, Evidence, Kind
from modescope.analysis.format import phrases
from tests.helpers.causes import codes, profiled, rows_of
from tests.helpers.rows import ends, row_with
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


def _planted(code: str, kind: Kind, share: float | None, sentence: str = "") -> Cause:
    def rule(case: Context) -> Evidence:
        return Evidence(share)

    rule.__name__ = code
    return Cause(kind, rule, sentence)


PLANTED = [
    _planted("hint", Kind.HINT, 0.9), _planted("part", Kind.PART, None),
    _planted("part of 0.2", Kind.PART, 0.2),
    _planted("cost", Kind.COST, 0.9), _planted("part of 0.5", Kind.PART, 0.5),
    _planted("decisive", Kind.DECISIVE, None), _planted("gain", Kind.GAIN, 0.1),
    _planted("loss", Kind.LOSS, 0.1),
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
        ([("one", 0.45)], Kind.REST),
        ([("one", 0.5)], Kind.PART),
        ([("one", 0.2), ("other", 0.25)], Kind.REST),
        ([("one", 0.2), ("other", 0.3)], Kind.PART),
        ([("one", 0.1), ("other", None)], Kind.PART),
        # Two causes of the same overhead count once
        ([("guards", 0.3), ("more_overhead", 0.25)], Kind.REST),
        ([("guards", 0.5), ("more_overhead", 0.25)], Kind.PART),
    ],
)
def test_parts_explain_a_loss_if_together_they_are_most_of_it(
    tmp_path: Path, parts: list[tuple[str, float | None]], kind: Kind
) -> None:
    """A call of 2.8 times the baseline's loses 64 % of itself."""
    (row,) = rows_of([record("compile", speedup=1 / 2.8, spread=0.002)], tmp_path)
    found = find_causes(Context(row), [_planted(code, Kind.PART, share) for code, share in parts])
    assert {one.kind for one in found} == {kind}
    assert (f"{lead(row)};" in found[0].text) is (kind == Kind.REST)


@pytest.mark.parametrize(
    ("speedup", "kind"),
    [
        (0.5, Kind.SETTING),
        (0.97, Kind.SETTING),
        (0.995, Kind.PART),
        (1.05, Kind.PART),
        (2.0, Kind.REST),
    ],
)
def test_what_limits_a_gain_explains_little_gain_only(
    tmp_path: Path, speedup: float, kind: Kind
) -> None:
    (row,) = rows_of([record("compile", speedup=speedup, spread=0.002)], tmp_path)
    limit, part = _planted("limit", Kind.LIMIT, 0.9), _planted("part", Kind.PART, 0.6)
    (found,) = find_causes(Context(row), [limit])
    assert found.kind == kind
    assert (f"{lead(row)};" in found.text) is (kind != Kind.PART)
    both = codes(find_causes(Context(row), [limit, part]))
    assert both == (["part", "limit"] if kind == Kind.SETTING else ["limit", "part"])


def test_a_loss_with_a_wide_interval_is_explained_by_its_end(tmp_path: Path) -> None:
    """The speedup is 0.8, and may be 0.5: of a loss of a half 0.3 is not most."""
    (row,) = rows_of([record("compile", speedup=0.8, spread=0.002)], tmp_path)
    for low, kind in ((0.79, Kind.PART), (0.5, Kind.REST)):
        wide = row_with(row, speedup=ends(low=low))
        (found,) = find_causes(Context(wide), [_planted("part", Kind.PART, 0.3)])
        assert found.kind == kind


@pytest.mark.parametrize(
    ("share", "kind"), [(None, Kind.GAIN), (0.06, Kind.GAIN), (0.04, Kind.REST)]
)
def test_a_gain_is_explained_by_what_saves_a_tenth_of_it(
    tmp_path: Path, share: float | None, kind: Kind
) -> None:
    (row,) = rows_of([record("compile", speedup=2.0, spread=0.002)], tmp_path)
    (found,) = find_causes(Context(row), [_planted("gain", Kind.GAIN, share)])
    assert found.kind == kind


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
        row_with(row, cause=cause, in_effect=cause != "not_graphed")
        for row, (_, _, cause) in zip(rows_of(records, tmp_path), planted, strict=True)
    ]
    assert [phrases.mode(row) for row in most_important(rows, 9)] == [
        "amp", "cuda-graph", "compile", "inference_mode", "max-autotune", "eager",
    ]  # fmt: skip
    assert [phrases.mode(row) for row in most_important(rows, 2)] == ["amp", "cuda-graph"]

"""Cosine and top-1 agreement of outputs with their references."""

from __future__ import annotations

import math

import pytest
import torch

from modescope.bench.checking.agreement import Agreement, agree, looks_like_logits

TEN = torch.eye(10, dtype=torch.float64)


def test_the_worst_output_of_all_inputs_counts() -> None:
    moved = TEN.clone()
    moved[0, 0], moved[0, 1] = 0.0, 1.0  # one row of ten has its largest number elsewhere
    first, second = {"[0]": TEN, "[1]": TEN[0]}, {"[0]": moved, "[1]": TEN[0]}
    found = agree([(first, first), (second, first)])
    assert [found.cosine, found.top1] == pytest.approx([0.9, 0.9])


def test_equal_zeros_agree_and_nothing_is_unknown() -> None:
    zeros = torch.zeros(3, dtype=torch.float64)
    assert agree([({"": zeros}, {"": zeros})]) == Agreement(1.0, None)
    assert agree([]) == Agreement()
    assert agree([({}, {"": zeros})]) == Agreement()
    assert agree([({"": zeros[:2]}, {"": zeros})]) == Agreement()


@pytest.mark.parametrize("nothing", [-math.inf, math.nan])
def test_masked_numbers_leave_the_cosine_of_the_others(nothing: float) -> None:
    masked = TEN.clone()
    masked[0, 1:] = nothing
    assert agree([({"": masked}, {"": TEN})]).cosine != pytest.approx(1.0)
    assert agree([({"": 2 * masked}, {"": masked})]).cosine == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("place", "shape", "expected"),
    [
        ("", (4, 10), True),
        ("", (4, 9), False),
        ("", (2, 4, 10), False),
        ("['logits']", (2, 4, 3), True),
        ("['logits']", (), False),
        ("['hidden']", (2, 4, 64), False),
    ],
)
def test_logits_are_told_by_name_or_as_a_table(
    place: str, shape: tuple[int, ...], expected: bool
) -> None:
    assert looks_like_logits(place, torch.zeros(shape)) is expected


def test_small_numbers_have_a_direction_and_what_is_none_has_not() -> None:
    small = 1e-30 * TEN[0]
    assert agree([({"": 1.1 * small}, {"": small})]).cosine == pytest.approx(1.0)
    nothing = torch.full_like(TEN, math.nan)
    assert agree([({"": nothing}, {"": nothing})]) == Agreement()
    assert agree([({"a": nothing, "b": TEN}, {"a": TEN, "b": TEN})]).cosine is None

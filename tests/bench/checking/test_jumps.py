"""Which outputs jump in perturbed runs, and what that explains, on made-up outputs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from modescope.bench.checking import jumps

ROWS = torch.linspace(1, 2, 1000, dtype=torch.float64)
MASK = (ROWS > 1.5).double()
NOISE = torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def flipped(mask: Tensor, number: int) -> Tensor:
    return torch.cat([1 - mask[:number], mask[number:]])


def moved(number: int) -> Tensor:
    """Some elements are exchanged with others."""
    return torch.cat([ROWS[:number].flip(0) + 1, ROWS[number:]])


JUMPS: dict[str, tuple[Tensor, Tensor]] = {
    "fewer rows": (ROWS[:-2], ROWS),
    "no rows": (ROWS[:0], ROWS),
    "another shape": (ROWS.view(10, 100), ROWS),
    "flips": (flipped(MASK, 3), MASK),
    "a few elements": (moved(30), ROWS),
    "all elements": (ROWS.flip(0) * NOISE, ROWS),
}
SMOOTH: dict[str, tuple[Tensor, Tensor]] = {
    "nothing": (ROWS, ROWS),
    "rounding": (ROWS * (1 + 1e-3 * NOISE), ROWS),
    "amplified rounding": (ROWS * (1 + 0.3 * NOISE), ROWS),
    "whole numbers by chance": (MASK * (1 + 0.01 * NOISE), MASK),
    "not a number": (ROWS * torch.nan, ROWS),
}


@pytest.mark.parametrize("name", JUMPS)
def test_an_output_that_a_perturbed_run_changes_like_this_jumps(name: str) -> None:
    output, reference = JUMPS[name]
    found = jumps.find([[{"a": output}], [{"a": reference}]], [{"a": reference}], "bf16")
    assert found is not None
    assert list(found.changes) == ["a"]
    assert found.resized == ({"a"} if output.shape != reference.shape else set())
    assert found.explained([({"a": output}, {"a": reference})]) == {"a"}
    assert found.explained([({"a": reference}, {"a": reference})]) == set(), "nothing to explain"


@pytest.mark.parametrize("name", SMOOTH)
def test_an_output_that_rounding_changes_smoothly_does_not_jump(name: str) -> None:
    output, reference = SMOOTH[name]
    assert jumps.find([[{"a": output}]], [{"a": reference}], "bf16") is None


def test_runs_that_differ_in_places_explain_nothing() -> None:
    assert jumps.find([[{"a": ROWS[:5], "b": ROWS}]], [{"a": ROWS}], "bf16") is None


@pytest.mark.parametrize(
    ("output", "explained"),
    [
        (ROWS[:-8], True),
        (ROWS[:-10], False),
        (torch.cat([ROWS, ROWS[-8:]]), True),
        (ROWS, False),  # is the reference: nothing to explain
        (ROWS[:-2] * 1.2, False),
        (ROWS * 1.2, False),
        (ROWS[2:].view(2, -1), False),
        (None, False),
    ],
)
def test_three_times_as_many_rows_are_explained_with_about_the_same_values(
    output: Tensor | None, explained: bool
) -> None:
    found = jumps.find([[{"a": ROWS[:-3]}], [{"a": ROWS[1:]}]], [{"a": ROWS}], "bf16")
    assert found is not None
    outputs = {} if output is None else {"a": output}
    assert found.explained([(outputs, {"a": ROWS})]) == ({"a"} if explained else set())
    calls = [(outputs, {"a": ROWS}), ({"a": ROWS * 2}, {"a": ROWS})]
    assert found.explained(calls) == set(), "each call must be explained"


@pytest.mark.parametrize(
    ("number", "explained"), [(1, True), (25, True), (30, False), (1000, False)]
)
def test_flips_are_explained_up_to_three_times_the_error(number: int, explained: bool) -> None:
    found = jumps.find([[{"a": flipped(MASK, 3)}]], [{"a": MASK}], "bf16")
    assert found is not None
    assert bool(found.explained([({"a": flipped(MASK, number)}, {"a": MASK})])) is explained

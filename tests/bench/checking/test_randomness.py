"""Two steps' randomness compared over repeated calls, and randomness switched off."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from modescope.bench.checking import randomness
from modescope.bench.checking.random_judge import CALLS, MORE_CALLS, MORE_PERMUTATIONS, differs
from modescope.bench.checking.randomness import SWITCHES

PLACES = {"loss": 1, "gradient of a": 40, "gradient of b": 8}


def drawn(seed: int, calls: int, spread: float = 1.0, shift: float = 0.0) -> randomness.Draws:
    generator = torch.Generator().manual_seed(seed)
    return {
        place: 1 + shift + spread * torch.randn(calls, size, generator=generator).double()
        for place, size in PLACES.items()
    }


def compared(
    mode: randomness.Draws, eager: randomness.Draws, dtype: str
) -> randomness.DrawsComparison:
    return randomness.compare(mode, eager, dtype, MORE_PERMUTATIONS)


def test_equal_randomness_is_never_called_another() -> None:
    seen = [compared(drawn(seed, CALLS), drawn(seed + 1000, CALLS), "fp32") for seed in range(10)]
    assert not any(map(differs, seen))
    assert sum(each.p_value < 0.1 for each in seen) <= 4


@pytest.mark.parametrize(("spread", "shift"), [(0.5, 0.0), (1.0, 1.0)])
def test_other_randomness_is_found(spread: float, shift: float) -> None:
    for seed in range(2):
        seen = compared(
            drawn(seed, MORE_CALLS, spread, shift), drawn(seed + 1000, MORE_CALLS), "fp32"
        )
        assert differs(seen)
        assert seen.spread == pytest.approx(spread**2, rel=0.5)


def test_the_same_numbers_in_each_call_and_numbers_that_are_not_finite_are_found() -> None:
    mode, eager = drawn(0, CALLS), drawn(1, CALLS)
    constant = {place: each[:1].expand(CALLS, -1) for place, each in mode.items()}
    seen = compared(constant, eager, "fp32")
    assert seen.spread < 1e-6
    assert differs(seen)
    seen = compared({**mode, "loss": torch.full((CALLS, 1), math.nan).double()}, eager, "fp32")
    assert not seen.finite
    assert differs(seen)


def test_results_that_hardly_vary_are_left_to_their_errors() -> None:
    """Rounding differs between two steps and would look like another randomness."""
    mode, eager = drawn(0, CALLS, spread=1e-4, shift=1e-5), drawn(1, CALLS, spread=1e-4)
    assert compared(mode, eager, "fp32") == randomness.EQUAL
    assert compared(mode, eager, "bf16") == randomness.EQUAL


def test_rare_events_are_no_fault() -> None:
    """Of a probability of 1 %: eager had two in its calls, the mode none."""
    mode = {"loss": torch.ones(CALLS, 4).double()}
    eager = {"loss": mode["loss"].clone()}
    eager["loss"][3:5] = 5.0
    assert not differs(compared(mode, eager, "fp32"))


def test_shift_and_spread_by_hand() -> None:
    first = {"a": torch.tensor([[0.0], [2.0]]).double()}
    second = {"a": torch.tensor([[4.0], [8.0]]).double()}
    seen = compared(first, second, "fp32")
    assert seen.spread == pytest.approx(0.25)  # variances 2 and 8
    # Squared distances: 4 and 16 within, (16 + 64 + 4 + 36) / 4 = 30 across.
    assert seen.shift == pytest.approx((2 * 30 - 4 - 16) / (4 + 16))


def taken(results: list[dict[str, torch.Tensor]]) -> randomness.Draws:
    """Of calls with these results."""
    remaining = iter(results)
    check: Any = SimpleNamespace(results=lambda built: next(remaining))
    return randomness.take(check, cast("Any", None), len(results), 0)


def test_a_result_that_a_call_lacks_is_zero_there_and_one_of_changing_size_is_left_out() -> None:
    """As the gradient of a layer that stochastic depth skips."""
    without = {"loss": torch.ones(1).double(), "b": torch.ones(2).double()}
    whole = {"gradient of a": torch.full((3,), 2.0).double(), "b": torch.ones(1).double()}
    rows = [[0.0] * 3, [2.0] * 3]
    assert taken([without, without | whole])["gradient of a"].tolist() == rows
    assert taken([without | whole, without])["gradient of a"].tolist() == rows[::-1]
    assert taken([without, without | whole]).keys() == {"loss", "gradient of a"}


def test_what_a_mode_never_has_is_another_randomness_and_what_has_another_size_is_none() -> None:
    mode, eager = drawn(0, MORE_CALLS), drawn(1, MORE_CALLS)
    mode["gradient of b"] = torch.zeros(MORE_CALLS, 3).double()
    assert not differs(compared(mode, eager, "fp32"))
    del mode["gradient of a"]
    assert differs(compared(mode, eager, "fp32"))


def test_a_gradient_of_more_elements_than_fp32_can_count_is_sampled_to_its_end() -> None:
    elements = 2**24 + 4  # fp32 rounds the last place, 2**24 + 3, to 2**24 + 4
    large = torch.zeros(1, dtype=torch.float64).expand(elements)
    assert taken([{"a": large}])["a"].shape == (1, randomness.KEPT)
    few = torch.arange(1000.0).double()
    row = taken([{"a": few}])["a"][0]
    assert (float(row[0]), float(row[-1])) == (0.0, 999.0)
    assert bool((row.diff() >= 3).all())


def drops(kind: str, attribute: str) -> nn.Module:
    """A module of this class that keeps its probability in this attribute."""

    class Drops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            setattr(self, attribute, 0.3)

        def forward(self, x: Tensor) -> Tensor:
            return functional.dropout(x, getattr(self, attribute), self.training)

    made: nn.Module = type(kind, (Drops,), {})()
    return made


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "torch": (lambda: nn.Dropout(0.3), 1),
    "timm": (lambda: drops("DropPath", "drop_prob"), 1),
    "torchvision": (lambda: drops("StochasticDepth", "p"), 1),
    "transformers": (lambda: drops("Attention", "attention_dropout"), 1),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16), 1),
    "another name": (lambda: drops("Attention", "p"), 2),
    "noise": (nn.RReLU, 2),
}


def draws(module: nn.Module) -> bool:
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    return not all(torch.equal(module(x), module(x)) for _ in range(5))


@pytest.mark.parametrize("name", MODELS)
def test_the_first_switches_that_are_needed_silence_a_model(name: str) -> None:
    build, needed = MODELS[name]
    torch.manual_seed(0)
    module = nn.Sequential(build(), nn.Linear(8, 8)).train()
    seen = [draws(module)]
    for turn_off in SWITCHES.values():
        turn_off(module)
        seen.append(draws(module))
    assert seen == [True] * needed + [False] * (1 + len(SWITCHES) - needed)


def test_norms_recurrent_networks_and_other_numbers_stay() -> None:
    """A batch norm computes something else in eval(); cuDNN has no backward there."""
    norm, relu = nn.BatchNorm1d(8, eps=0.1), nn.LeakyReLU(0.2)
    module = nn.Sequential(norm, nn.LSTM(8, 8), relu, nn.Dropout(0.3)).train()
    for turn_off in SWITCHES.values():
        turn_off(module)
    assert [part.training for part in module] == [True, True, False, False]
    assert (relu.negative_slope, norm.eps) == (0.2, 0.1)

"""Perturbed float64 runs are off by about as much as correct runs in the precision they imitate."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.checking.rounding import Rounded
from modescope.bench.records.tolerances import EPS

CPU = torch.device("cpu")


def spread(function: Callable[[], Tensor], dtype: str, runs: int = 200) -> Tensor:
    """Root mean square of what perturbing changes, per element."""
    exact, off = function(), []
    for seed in range(runs):
        with Rounded(dtype, CPU, seed):
            off.append(function() - exact)
    return torch.stack(off).square().mean(0).sqrt()


UNIFORM = 3**-0.5  # of numbers from -1 to 1


@pytest.mark.parametrize("dtype", EPS)
def test_a_result_is_perturbed_by_the_rounding_of_its_precision(dtype: str) -> None:
    x = torch.rand(8, dtype=torch.float64) + 1
    torch.testing.assert_close(
        spread(lambda: x * 1.5, dtype), 1.5 * x * EPS[dtype] * UNIFORM, rtol=0.2, atol=0
    )


@pytest.mark.parametrize(("dtype", "times"), [("fp32", 100.0), ("bf16", 1.0)])
def test_a_sum_is_perturbed_by_the_root_of_its_length_in_fp32(dtype: str, times: float) -> None:
    """So the sum of halves is hardly perturbed more than by its own rounding."""
    x = torch.ones(10_000, dtype=torch.float64)
    expected = x.sum().item() * times * EPS[dtype] * UNIFORM
    assert float(spread(x.sum, dtype)) == pytest.approx(expected, rel=0.2)


def test_the_seed_decides_and_views_and_whole_numbers_stay() -> None:
    x, whole, found = torch.randn(4, 4, dtype=torch.float64), torch.arange(4), []
    for seed in (1, 1, 2):
        with Rounded("bf16", CPU, seed):
            assert torch.equal(whole + whole, 2 * whole)
            view = x[1:]
            found.append(x.exp())
    assert view.data_ptr() == x[1:].data_ptr()
    assert torch.equal(view, x[1:])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[1], found[2])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)],
)
def test_without_a_seed_results_are_rounded_to_the_nearest(name: str, dtype: torch.dtype) -> None:
    x = torch.randn(1000, dtype=torch.float64)
    ends = torch.tensor([0.0, torch.inf, 1 + EPS[name] / 2, -1.5], dtype=torch.float64)
    for each in (x[x.abs() > 1e-3], ends):
        with Rounded(name, CPU, None):
            rounded = each * 1.0
        assert torch.equal(rounded, each.to(dtype).double())


def test_the_zero_gradient_of_a_bias_before_a_batch_norm_gets_the_noise_of_its_sums() -> None:
    """Which cancel within one operator of eager, and leave the rounding of each."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).double()
    x, weights = torch.randn(64, 4).double(), torch.randn(64, 4).double()

    def gradient(double: bool = True) -> Tensor:
        own, data = (net, x) if double else (single, x.float())
        own.zero_grad()
        (own(data) * weights.to(data)).sum().backward()
        gradient = own.get_parameter("0.bias").grad
        assert gradient is not None
        return gradient.double().clone()

    single = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    single.load_state_dict(net.state_dict())
    noise = spread(gradient, "fp32", runs=20)
    assert float(gradient().norm()) < 1e-12
    assert float(noise.norm()) > float(gradient(double=False).norm()) / 3
    assert float(noise.norm()) < 1e-3


def test_a_sparse_gradient_has_the_perturbed_values_of_a_dense_one() -> None:
    table = nn.Embedding(5, 3, sparse=True, dtype=torch.float64)
    weight = torch.rand(3, dtype=torch.float64)

    def gradient() -> Tensor:
        loss = (table(torch.tensor([1, 4])) * weight).sum()
        (made,) = torch.autograd.grad(loss, table.weight)
        return made.to_dense()

    seen = spread(gradient, "fp32", runs=20)
    assert bool((seen[[1, 4]] > 0).all())
    assert not seen[[0, 2, 3]].any()

"""Perturbed float64 runs are off by about as much as correct runs in the precision they imitate."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.records.cases import EPS
from modescope.bench.steps.training import reference
from modescope.bench.steps.training.reference import Rounded

CPU = torch.device("cpu")


def spread(function: Callable[[], Tensor], dtype: str) -> Tensor:
    """Root mean square of what perturbing changes, per element."""
    exact, off = function(), []
    for seed in range(200):
        with Rounded(dtype, CPU, seed):
            off.append(function() - exact)
    return torch.stack(off).square().mean(0).sqrt()


@pytest.mark.parametrize("dtype", EPS)
def test_a_result_is_perturbed_by_the_rounding_of_its_precision(dtype: str) -> None:
    x = torch.rand(8, dtype=torch.float64) + 1
    uniform = 3**-0.5  # of numbers from -1 to 1
    torch.testing.assert_close(
        spread(lambda: x * 1.5, dtype), 1.5 * x * EPS[dtype] * uniform, rtol=0.2, atol=0
    )


def test_a_sum_is_perturbed_by_the_root_of_its_length() -> None:
    x = torch.ones(10_000, dtype=torch.float64)
    seen = spread(x.sum, "fp32")
    assert float(seen) == pytest.approx(x.sum().item() * EPS["fp32"] * 100 * 3**-0.5, rel=0.2)


def test_halves_are_summed_in_fp32() -> None:
    x = torch.ones(10_000, dtype=torch.float64)
    assert float(spread(x.sum, "bf16")) < 1.1 * x.sum().item() * EPS["bf16"] * 3**-0.5 * 1.2


def test_views_and_whole_numbers_stay() -> None:
    x, whole = torch.randn(4, 4, dtype=torch.float64), torch.arange(4)
    with Rounded("bf16", CPU, 0):
        assert torch.equal(whole + whole, 2 * whole)
        view = x[1:]
    assert view.data_ptr() == x[1:].data_ptr()
    assert torch.equal(view, x[1:])


def test_the_same_seed_perturbs_alike() -> None:
    x = torch.randn(16, dtype=torch.float64)

    def perturbed(seed: int) -> Tensor:
        with Rounded("fp32", CPU, seed):
            return x.exp()

    assert torch.equal(perturbed(1), perturbed(1))
    assert not torch.equal(perturbed(1), perturbed(2))


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
    noise = spread(gradient, "fp32")
    assert float(gradient().norm()) < 1e-12
    assert float(noise.norm()) > float(gradient(double=False).norm()) / 3
    assert float(noise.norm()) < 1e-3


@pytest.mark.full
def test_the_sums_inside_a_batch_norm_are_perturbed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of a bias before it is several times that of its result's last rounding."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).double()
    x, weights = torch.randn(16, 3, 8, 8).double(), torch.randn(16, 8, 6, 6).double()

    def gradient() -> Tensor:
        net.zero_grad()
        (net(x) * weights).sum().backward()
        gradient = net.get_parameter("0.bias").grad
        assert gradient is not None
        return gradient.clone()

    inside = spread(gradient, "fp32").norm()
    monkeypatch.setattr(reference, "DECOMPOSED", {})
    assert inside > 2 * spread(gradient, "fp32").norm()


def test_a_sparse_gradient_has_the_perturbed_values_of_a_dense_one() -> None:
    table = nn.Embedding(5, 3, sparse=True, dtype=torch.float64)
    weight = torch.rand(3, dtype=torch.float64)

    def gradient() -> Tensor:
        loss = (table(torch.tensor([1, 4])) * weight).sum()
        (made,) = torch.autograd.grad(loss, table.weight)
        return made.to_dense()

    seen = spread(gradient, "fp32")
    assert bool((seen[[1, 4]] > 0).all())
    assert not seen[[0, 2, 3]].any()

"""What calls in plain eager tell of a model: its inputs, its reference, randomness and state."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy
import pytest
import torch
from torch import Tensor, nn

from modescope.bench.checking import examination, output_check
from modescope.bench.checking.checks import Seen
from modescope.bench.checking.output_check import OutputCheck
from modescope.bench.devices.devices import Cpu
from modescope.bench.model import plain_call
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.records.results import Ended
from tests.helpers.probe_models import variant

WIDTH = 8
BF16 = torch.bfloat16

Forward = Callable[..., Any]
Arguments = tuple[Any, ...]


class Net(nn.Module):
    """Calls a function of itself and the arguments."""

    def __init__(self, forward: Forward, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=dtype)
        self.kept: Any = None
        self.function = forward

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def check_of(forward: Forward, make: Callable[[], Arguments], **options: Any) -> OutputCheck:
    """Of a Net whose builder makes its arguments by `make`."""

    def arguments(seed: int) -> Inputs:
        torch.manual_seed(seed)
        return Inputs(make(), {})

    example = arguments(0)
    module = Net(forward, **options).eval()
    subject = Subject(module, example, rebuild=arguments)
    return output_check.prepare_check(subject, Cpu(), seed=0)


def seen(forward: Forward, make: Callable[[], Arguments] | None = None, **options: Any) -> Seen:
    return check_of(forward, make or (lambda: (torch.randn(4, WIDTH),)), **options).seen


def x() -> Tensor:
    return torch.randn(6, WIDTH)


def increasing(net: Net, x: Tensor, ends: Tensor) -> Any:
    if not bool((ends.diff() > 0).all()):
        raise ValueError("offsets must increase")
    return net.linear(x) * ends.sum()


def attends(net: Net, x: Tensor, mask: Tensor) -> Any:
    if not bool(((mask == 0) | mask.isinf()).all()):
        raise ValueError("a mask of 0 and -inf")
    return net.linear(x) @ net.linear(x).t() + mask


def positive_definite() -> Tensor:
    a = torch.randn(WIDTH, WIDTH)
    return a @ a.t() + torch.eye(WIDTH)


def cholesky(net: Net, a: Tensor) -> Any:
    return net.linear(torch.linalg.cholesky(a))


def unread(net: Net, ends: Tensor, unused: Tensor) -> Any:
    """`ends` counts, and only `unused` can be redrawn: a replay of old results would pass."""
    return increasing(net, net.linear.weight, ends)


def ordered(net: Net, x: Tensor) -> Any:
    if not torch.equal(x.flatten(), torch.arange(x.numel()).to(x)):
        raise ValueError("numbers in order")
    return net.linear(x)


LENGTHS, FIXED, SIZES = torch.tensor([0, 2, 3, 6]), positive_definite(), iter(range(1, 9))
STALE = examination.STALE_PASSES


@pytest.mark.parametrize(
    ("forward", "make", "drawn", "note"),
    [
        (lambda net, x, ids: net.linear(x)[ids], lambda: (x(), torch.arange(6)), "fresh", None),
        (increasing, lambda: (x(), LENGTHS), "floats", None),
        (attends, lambda: (x(), torch.full((6, 6), -torch.inf).triu(1)), "floats", None),
        (cholesky, lambda: (positive_definite(),), "rebuilt", None),
        (lambda net, a: net.linear(a) * a.logdet(), lambda: (positive_definite(),), "rebuilt",
         None),
        (cholesky, lambda: (FIXED,), "example", None),
        (unread, lambda: (LENGTHS, torch.ones(3) / 3), "example", STALE),
        (ordered, lambda: (torch.arange(next(SIZES) * WIDTH).view(-1, WIDTH).float(),), "example",
         STALE),
    ],
    ids=["ids", "offsets", "mask", "raises", "not a number", "scaled", "unread", "other shapes"],
)  # fmt: skip
def test_inputs_are_the_freest_that_plain_eager_takes(
    forward: Forward, make: Callable[[], Arguments], drawn: str, note: str | None
) -> None:
    check = check_of(forward, make)
    found = check.seen
    assert (found.checked_inputs, found.note, found.is_exact) == (drawn, note, True)
    if (drawn, note) == ("example", None):
        assert torch.equal(check.inputs[1].args[0], FIXED * 1.0625)


def in_autocast(net: Net, x: Tensor) -> Any:
    with torch.autocast("cpu", BF16):
        return net.linear(net.linear(x)).float()


def masked(net: Net, x: Tensor) -> Any:
    return net.linear(x).masked_fill(x > 0, torch.finfo(x.dtype).min)


def plain_float(net: Net, x: Tensor) -> Any:
    return net.linear(x.float())


def forces(net: Net, x: Tensor) -> Any:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(net.linear(x).square().sum(), x)[0]


def half(net: Net, x: Tensor) -> Any:
    return net.linear(x.bfloat16()).float()


@pytest.mark.parametrize(
    ("forward", "dtype", "against", "narrowest"),
    [
        (lambda net, x: net.linear(x.to(net.linear.weight)), BF16, "float64", "fp32"),
        (forces, None, "float64", "fp32"),
        (plain_float, None, "fp32", "fp32"),
        (masked, None, "fp32", "fp32"),
        (in_autocast, None, "fp32", "bf16"),
        (half, BF16, "own", "bf16"),
    ],
)
def test_the_reference_is_the_most_precise_that_computes_what_plain_eager_does(
    forward: Forward, dtype: torch.dtype | None, against: str, narrowest: str
) -> None:
    found = seen(forward, dtype=dtype)
    assert (found.checked_against, found.narrowest) == (against, narrowest)
    assert (found.random, found.depends) == (False, False)


def test_a_reference_that_is_plain_eager_makes_limits_as_wide_as_the_precision() -> None:
    doubtful = Seen(checked_against="fp32", apart=0.01)
    check = OutputCheck((), (), 0, cast(Any, None), torch.device("cpu"), None, doubtful, None)
    limit = check.limit(None, variant("fp32"))
    assert limit.error == pytest.approx(0.03)
    own = Seen(checked_against="own", narrowest="bf16")
    assert [own.tolerance(variant(dtype)) for dtype in ("fp32", "bf16")] == [2e-2] * 2
    assert [Seen().tolerance(variant(dtype)) for dtype in ("fp32", "bf16")] == [1e-4, 2e-2]


def adds_to(net: Net, x: Tensor) -> Any:
    """Its result is the sum of all inputs so far."""
    net.kept = x if net.kept is None else net.kept + x
    return net.linear(net.kept)


def caches(net: Net, x: Tensor) -> Any:
    """Does not depend on earlier calls."""
    if net.kept is None:
        net.kept = torch.arange(x.shape[-1]).to(x)
    return net.linear(x) * net.kept


TABLE: dict[str, int] = {}


def counts_in_the_process(net: Net, x: Tensor) -> Any:
    TABLE["calls"] = TABLE.get("calls", 0) + 1
    return net.linear(x) * TABLE["calls"]


def draws_and_adds(net: Net, x: Tensor) -> Any:
    return adds_to(net, x) + torch.rand_like(x)


DEPENDS, RANDOM, NEITHER = (True, False), (False, True), (False, False)

KINDS: dict[str, tuple[Forward, tuple[bool, bool]]] = {
    "sum": (adds_to, DEPENDS),
    "count in the process": (counts_in_the_process, DEPENDS),
    "sum and random": (draws_and_adds, DEPENDS),
    "torch": (lambda net, x: net.linear(x) + torch.rand_like(x), RANDOM),
    "python": (lambda net, x: net.linear(x) * random.random(), RANDOM),
    "numpy": (lambda net, x: net.linear(x) * float(numpy.random.rand()), RANDOM),
    "rarely": (lambda net, x: net.linear(x) if float(torch.rand(())) < 0.8 else x, RANDOM),
    "cached": (caches, NEITHER),
    "drawn in vain": (lambda net, x: net.linear(x) + 0 * torch.rand_like(x), NEITHER),
}


@pytest.mark.parametrize("name", KINDS)
def test_results_that_depend_on_earlier_calls_are_told_from_random_ones(name: str) -> None:
    forward, kind = KINDS[name]
    found = seen(forward)
    assert (found.depends, found.random) == kind


def test_parameters_made_in_the_first_call_are_refused() -> None:
    def forward(net: Net, x: Tensor) -> Any:
        if net.kept is None:
            net.kept = nn.Linear(x.shape[-1], 2)
        return net.kept(x)

    with pytest.raises(Ended, match=r"kept.weight, kept.bias.*call it once in the builder"):
        seen(forward)


def test_the_weights_of_lazy_modules_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = nn.Sequential(nn.LazyConv1d(4, 3), nn.LazyBatchNorm1d(), nn.Flatten(), nn.LazyLinear(2))
    made = Subject(lazy.eval(), Inputs((torch.randn(2, 3, WIDTH),), {}))
    monkeypatch.setattr(plain_call, "build", lambda model, shape: replace(made))
    case: Any = type(
        "Case",
        (),
        {
            "model": None,
            "largest_shape": {},
            "alternates": False,
            "variant": variant(),
            "baseline": None,
        },
    )
    subject = plain_call.build_drawn(case, Cpu()).subject
    one, other = (list(subject.cast(None).module.parameters()) for _ in range(2))
    assert [each.shape for each in one][-2:] == [(2, 24), (2,)]
    assert all(map(torch.equal, one, other))


def test_inputs_are_not_made_in_the_mode_whose_failure_is_looked_for() -> None:
    class Refuses(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if x.is_inference():
                raise ValueError("made in inference mode")
            return x

    subject = Subject(Refuses(), Inputs((torch.ones(2),), {}))
    assert plain_call.find_failure(subject, torch.inference_mode()) is None

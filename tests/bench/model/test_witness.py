"""A module that a fresh process loads is compared with the one that was saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.api import saving
from modescope.bench.model import pickled_model, witness
from modescope.bench.model.building import parse_inputs
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.model.witness import FirstCall
from modescope.bench.records.cases import PICKLED_TARGET, Model, Pickled

WIDTH = 4


class Net(nn.Module):
    pos: Tensor
    gain = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout()
        self.calls, self.seen = 0, list[float]()
        self.register_buffer("pos", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.pos += 1
        self.seen.append(float(x.sum()))
        y: Tensor = self.dropout(self.linear(x)) * self.gain
        return y


def first(module: nn.Module, x: Tensor) -> FirstCall:
    inputs = parse_inputs(x)
    assert inputs is not None
    return witness.first_call(Subject(module, inputs))


def test_a_first_call_leaves_module_and_process_as_they_were() -> None:
    net, x = Net().train(), torch.randn(2, WIDTH)
    net.dropout.eval()
    state, generator = {**net.state_dict()}, torch.get_rng_state()
    seen = first(net, x)
    assert (seen.error, seen.random, seen.device) == (None, False, "cpu")
    assert seen.operators["aten.addmm.default"] == 1
    assert (net.training, net.dropout.training, net.calls, net.seen) == (True, False, 0, [])
    assert all(torch.equal(each, net.state_dict()[name]) for name, each in state.items())
    assert torch.equal(torch.get_rng_state(), generator)


def scale(net: Net) -> None:
    net.gain = 1.1


def round_off(net: Net) -> None:
    net.gain = 1 + 1e-5


def drop(net: Net) -> None:
    net.linear = nn.Identity()  # type: ignore[assignment]


def widen(net: Net) -> None:
    net.linear = nn.Linear(WIDTH, 2 * WIDTH)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda net: None, None),
        (round_off, None),
        (scale, "differs by 10%"),
        (drop, "differs by"),
        (widen, "outputs of sizes"),
    ],
)
def test_calls_differ_by_outputs(change: Callable[[Net], None], difference: str | None) -> None:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(2, WIDTH)
    before = first(net, x)
    change(net)
    found = before.difference(first(net, x))
    assert found is None if difference is None else difference in str(found)


def test_calls_differ_by_operators_on_one_device() -> None:
    one = FirstCall(operators={"aten.mm": 2, "aten.mul": 1}, values={"": [[1], 1.0, 1.0]})
    other = FirstCall(operators={"aten.mm": 1, "aten.neg": 1}, values={"": [[1], 1.0, 1.0]})
    assert one.difference(other) == "without aten.mm, without aten.mul"
    elsewhere = FirstCall("", "cuda", other.operators, other.values)
    assert one.difference(elsewhere) is None
    assert one.difference(FirstCall("it fails")) is None


@pytest.mark.parametrize(("random", "other_random"), [(True, False), (False, True)])
def test_values_are_not_compared_if_either_call_drew_random_numbers(
    random: bool, other_random: bool
) -> None:
    one = FirstCall(values={"": [[1], 1.0, 1.0]}, random=random)
    other = FirstCall(values={"": [[1], 2.0, 1.0]}, random=other_random)
    assert one.difference(other) is None
    assert replace(one, random=False).difference(replace(other, random=False)) is not None


class Gain:
    """A deep copy of it is another number."""

    value = 2.0

    def __deepcopy__(self, known: Any) -> Gain:
        made = Gain()
        made.value = 0.5
        return made


def test_a_copy_that_does_something_else_is_found() -> None:
    net: Any = Net()
    subject = Subject(net, Inputs((torch.randn(2, WIDTH),), {}))
    assert witness.find_fault(subject, subject.another()) is None
    net.of = Gain()
    assert witness.find_fault(subject, subject.another()) is None
    net.forward = lambda x: net.linear(x) * net.of.value
    other: Any = subject.another()
    other.forward = lambda x: other.linear(x) * other.of.value
    assert witness.find_fault(subject, other) == "output differs by 75%"
    other.forward = lambda x: x.nonsense
    assert "fails" in str(witness.find_fault(subject, other))


def saved(module: nn.Module, x: Tensor, study: Path) -> Model:
    named = saving.save(module, x, "net", study)
    return Model("net", PICKLED_TARGET, pickled=Pickled(str(study / "model" / f"{named}.pt"), ""))


def test_what_a_pickle_loses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, WIDTH)
    assert witness.find_loss(saved(Net(), x, tmp_path)) is None
    hooked = Net()
    hooked.linear.weight.register_hook(lambda gradient: 2 * gradient)
    lost = witness.find_loss(saved(hooked, x, tmp_path))
    assert "hooks of linear.weight (1 → none)" in str(lost)
    tied: Any = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))
    tied[1].weight.data = tied[0].weight.data
    tied[0].weight.scale = 3
    assert witness.find_loss(saved(tied, x, tmp_path)) is None

    changed = saved(Net(), x, tmp_path)
    monkeypatch.setattr(Net, "gain", 2.0)  # as if another process had another class
    assert "its first call, output" in str(witness.find_loss(changed))
    monkeypatch.setattr(Net, "forward", lambda self, x: x.nonsense)
    assert "its first call, which fails" in str(witness.find_loss(changed))


class Merges(Net):
    """Changes its weights when it is evaluated, as adapters do."""

    def train(self, mode: bool = True) -> Any:
        with torch.no_grad():
            self.linear.weight += 1 if mode else -1
        return super().train(mode)


def test_the_callers_module_never_changes() -> None:
    net: Any = Merges()
    before = [each.clone() for each in net.state_dict().values()]
    known = witness.seen_in_fork(net, torch.randn(2, WIDTH))
    assert known[witness.CALL]["error"] is None
    assert known[witness.CALL]["operators"]["aten.addmm.default"] == 1
    assert all(map(torch.equal, net.state_dict().values(), before))
    assert (net.training, net.calls, net.seen) == (True, 0, [])
    assert witness.seen_in_fork(net, None)[witness.CALL]["error"]


def test_half_precision_stays_beside_other_floats(tmp_path: Path) -> None:
    module: Any = nn.Module()
    module.wide, module.narrow = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2).bfloat16())
    for net, expected in ((module, torch.bfloat16), (nn.Linear(2, 2).bfloat16(), torch.float32)):
        loaded, _ = pickled_model.load(saved(net, torch.ones(2), tmp_path))()
        assert [*loaded.parameters()][-1].dtype == expected


def test_inputs_keep_what_they_carry(tmp_path: Path) -> None:
    x = torch.randn(2, 2 * WIDTH)[:, :WIDTH].detach().requires_grad_()
    x.spacing = 0.5  # type: ignore[attr-defined]
    _, inputs = pickled_model.load(saved(Net(), x, tmp_path))()
    assert (inputs.requires_grad, inputs.spacing, inputs.stride()) == (True, 0.5, x.stride())

"""A call begins where the example begins, whether it changes its arguments, its state, or both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Prepared
from modescope.bench.model import arguments, module_state
from modescope.bench.model.subject import Inputs, Subject
from modescope.bench.passes import memory

WIDTH = 4


class Counts(nn.Module):
    """Counts its calls in a number and in a buffer, and empties its argument, as it is asked to."""

    def __init__(self, number: bool, buffer: bool, argument: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("calls", torch.zeros(3))
        self.number, self.asked = 0, (number, buffer, argument)

    def forward(self, x: Tensor) -> Tensor:
        number, buffer, argument = self.asked
        y = self.linear(x) + self.number + self.get_buffer("calls").sum()
        self.number += number
        if buffer:
            self.get_buffer("calls").add_(1)
        if argument:
            x.zero_()
        result: Tensor = y
        return result


def subject(state: tuple[str, ...], changes: tuple[str, ...] = (), **asked: bool) -> Subject:
    usual = {"number": False, "buffer": False, "argument": False} | asked
    inputs = Inputs((torch.randn(2, WIDTH),), {})
    made = Subject(Counts(**usual), inputs, changes=changes, state=state)
    return made.cast(None)


CASES = (
    subject(("number",), number=True),
    subject(("calls[:]",), buffer=True),
    subject(("number", "calls[:]"), ("[0]",), number=True, buffer=True, argument=True),
)


@torch.no_grad()
def test_each_call_returns_the_same() -> None:
    for own in CASES:
        step = arguments.call_of(own, own.module)
        assert isinstance(step, Prepared)
        results: list[Any] = [step(), step(), own.call()]
        assert all(torch.equal(results[0], each) for each in results)


def test_calls_may_follow_each_other_if_nothing_is_written_to_the_device() -> None:
    steps = [arguments.call_of(own, own.module) for own in CASES]
    assert [isinstance(each, Prepared) and each.in_a_row for each in steps] == [True, False, False]


def test_what_is_kept_to_put_state_back_is_no_memory_of_the_model() -> None:
    kept = [memory._kept_bytes(own) for own in CASES]
    assert kept == [0, 12, 12 + 4 * 2 * WIDTH]


def test_what_was_done_to_a_module_is_done_to_further_ones() -> None:
    first = Counts(number=False, buffer=False, argument=False)
    again: Any = lambda: Counts(number=False, buffer=False, argument=False)  # noqa: E731
    own = Subject(first, Inputs((torch.randn(2, WIDTH),), {}), again=again)
    changed = own.change(lambda module: setattr(module, "number", 7)).cast(torch.bfloat16)
    further: Any = changed.another()
    assert (further.number, further.linear.weight.dtype) == (7, torch.bfloat16)
    assert torch.equal(further.linear.weight, first.linear.weight.bfloat16())


def test_warm_subjects_begin_after_a_first_call() -> None:
    warm = replace(subject(("number",), number=True), warm=True).cast(None)
    step = arguments.call_of(warm, warm.module)
    step()
    assert warm.restore
    warm.restore()
    assert warm.module.number == 1
    assert module_state.name_places(warm.state) == "number"

"""Plain eager is called without gradients, then with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Cpu
from modescope.bench.model.building import build, parse_inputs
from modescope.bench.model.plain_call import call_without_gradients, find_misuse, try_call
from modescope.bench.model.subject import Subject
from modescope.bench.records.errors import UsageError
from modescope.bench.records.outcomes import Status
from modescope.bench.records.results import Ended, Findings
from tests.helpers.probe_models import model, one_dict


def raises(without: Exception | None, within: Exception | None) -> bool:
    """Returns whether gradients were recorded in the call that works."""

    def call() -> bool:
        error = within if torch.is_grad_enabled() else without
        if error is not None:
            raise error
        return torch.is_grad_enabled()

    return call_without_gradients(call)


def test_gradients_are_recorded_only_where_nothing_else_works() -> None:
    assert raises(None, ValueError()) is False
    assert raises(ValueError(), None) is True


def test_the_first_error_is_told_and_the_second_is_its_cause() -> None:
    first, second = ValueError("no kernel"), RuntimeError("grad is enabled")
    with pytest.raises(ValueError, match="no kernel") as told:
        raises(first, second)
    assert told.value.__cause__ is second


@pytest.mark.parametrize(
    "final",
    [UsageError("yours"), Ended(Status.FAILED, "ended", Findings()), torch.OutOfMemoryError()],
    ids=lambda error: type(error).__name__,
)
def test_what_ends_a_case_is_raised_at_once(final: Exception) -> None:
    for errors in ((final, None), (ValueError(), final)):
        with pytest.raises(type(final)):
            raises(*errors)


class TakesOne(nn.Module):
    def forward(self, batch: Any) -> Any:
        return batch


class TakesTwo(nn.Module):
    def forward(self, x: Tensor, mask: Tensor, scale: float = 1.0) -> Any:
        return x * mask * scale


class TakesAny(nn.Module):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return None


X = torch.ones(2)


@pytest.mark.parametrize(
    ("module", "example", "how"),
    [
        (TakesOne(), {"x": X, "ids": X}, "by name"),
        (TakesOne(), [X, X], "by position"),
        (TakesOne(), (X, X), "by position"),
        (TakesOne(), ({"x": X, "ids": X},), None),
        (TakesOne(), ([X, X],), None),
        (TakesOne(), {"batch": X}, None),
        (TakesTwo(), {"x": X, "mask": X}, None),
        (TakesTwo(), {"x": X, "other": X}, None),  # it takes no single argument either
        (TakesAny(), {"x": X, "mask": X}, None),
        (torch.jit.script(nn.ReLU()), {"x": X}, "by name"),
    ],
)
def test_inputs_that_came_as_several_arguments_and_are_one_are_told(
    module: nn.Module, example: Any, how: str | None
) -> None:
    inputs = parse_inputs(example)
    assert inputs is not None
    found = find_misuse(Subject(module, inputs))
    assert found is None if how is None else how in str(found)


def test_a_model_on_trial_says_how_to_pass_one_dict() -> None:
    with pytest.raises(
        UsageError, match=r"keyword argument 'x'; the inputs .* by name.*\(inputs,\)"
    ):
        try_call(build(model(one_dict), {}), Cpu(), model(one_dict), {})

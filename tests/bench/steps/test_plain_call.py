"""Plain eager is called without gradients, then with them."""

from __future__ import annotations

import pytest
import torch

from modescope.bench.records.errors import UsageError
from modescope.bench.records.results import Ended, Findings
from modescope.bench.steps.plain_call import call_without_gradients


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
    [UsageError("yours"), Ended("failed", "ended", Findings()), torch.OutOfMemoryError()],
    ids=lambda error: type(error).__name__,
)
def test_what_ends_a_case_is_raised_at_once(final: Exception) -> None:
    for errors in ((final, None), (ValueError(), final)):
        with pytest.raises(type(final)):
            raises(*errors)

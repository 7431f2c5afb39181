"""The first call in a process that starts: when it tells, and how its result is judged."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from modescope.bench.case import starting
from modescope.bench.case.start import Probes, Stopwatch
from modescope.bench.model.outputs import largest_error
from modescope.bench.modes import modes
from modescope.bench.records.cases import Model
from modescope.bench.records.starts import Asked, Start
from tests.helpers.probe_models import Built, accumulates, case, linear, model, smoke, variant

EAGER = variant(grad="inference_mode")


def builds_none() -> Built:
    raise ValueError("no model")


class Fails(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no result")


def gives_none() -> Built:
    return Fails(), (torch.ones(2),)


def first_call(of: Model, calls: int = 0) -> tuple[Start, int]:
    """What the process says, and how often it told of a first result."""
    told = list[int]()
    asked = Asked(case(of, EAGER), replace(smoke(), compile_cache="cold"), calls=calls)
    probes = Probes(Stopwatch(time.monotonic()))
    said = starting.run(asked, probes, lambda: told.append(1))
    return Start(**said), len(told)


def test_it_tells_of_its_first_result_once() -> None:
    start, told = first_call(model(linear), calls=3)
    assert (start.failure, start.error, told) == (None, 0.0, 1)
    assert start.own_s > 0
    assert "own" not in start.phases_s
    assert start.whole_s == sum(start.phases_s.values())


def test_a_failure_is_told_as_no_result() -> None:
    assert first_call(model(gives_none)) == (Start(failure="ValueError: no result"), 0)
    start, told = first_call(model(builds_none))
    assert start.failure.startswith(f"{__name__}:builds_none raised ValueError: no model")
    assert told == 0


def test_a_model_whose_calls_differ_is_not_compared() -> None:
    start, _ = first_call(model(accumulates))
    assert (start.failure, start.error) == (None, None)


def test_a_first_result_other_than_eagers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    build, built = modes.build, list[Any]()

    def wrong_at_first(*arguments: Any, **options: Any) -> Any:
        made = build(*arguments, **options)
        built.append(made)
        if len(built) > 1:
            return made
        step: Any = made.step
        return replace(made, step=lambda *given: step(*given) * 1.5)

    monkeypatch.setattr(modes, "build", wrong_at_first)
    start, told = first_call(model(linear))
    assert start.error == pytest.approx(0.5)
    assert told == 1  # what is wrong is found out afterwards, in no phase


A, B = torch.ones(2), torch.ones(3)
NAN = torch.full((3,), torch.nan)


@pytest.mark.parametrize(
    ("found", "error"),
    [
        ({}, math.inf),
        ({"a": A, "b": B}, 0.0),
        ({"a": A * 1.5, "b": B * 1.25}, 0.5),
        ({"a": A, "b": NAN}, math.nan),
        ({"a": A, "b": torch.ones(2)}, math.inf),
        ({"a": A}, math.inf),
        ({"a": A, "c": B}, math.inf),
    ],
    ids=str,
)
def test_the_largest_error_of_all_outputs_counts(found: dict[str, Any], error: float) -> None:
    largest = largest_error(found, {"a": A, "b": B})
    assert largest == pytest.approx(error, nan_ok=True)

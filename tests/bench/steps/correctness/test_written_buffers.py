"""What calls write into buffers, against errors worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Cpu
from modescope.bench.steps.correctness.output_check import deviation, prepare
from modescope.bench.steps.correctness.written_buffers import Writes, errors, written
from modescope.bench.steps.subject import Inputs, Subject, state_kept


class Store(nn.Module):
    """Keeps its input in an entry of a buffer, which its output does not depend on."""

    cache: Tensor

    def __init__(self, start: Tensor, entry: int) -> None:
        super().__init__()
        self.register_buffer("cache", start.clone())
        self.entry = entry

    def forward(self, x: Tensor) -> Tensor:
        self.cache[self.entry] = x
        return x


def writes(start: list[float], *changes: tuple[int, float]) -> Writes:
    module = Store(torch.tensor(start), 0)
    with state_kept(module) as before:
        for entry, value in changes:
            module.cache[entry] = value
        return written(module, before)


START = [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("found", "error"),
    [
        ([(1, 4.0)], 0.0),
        ([(1, 4.4)], 0.1),
        ([], 0.5),  # 2 was to become 4
        ([(2, 4.0)], math.sqrt(2**2 + 1**2) / 4),
        ([(1, 4.0), (0, 2.0)], 0.25),
        ([(1, math.nan)], math.nan),
    ],
)
def test_errors_are_relative_to_what_the_reference_wrote(
    found: list[tuple[int, float]], error: float
) -> None:
    reference = writes(START, (1, 4.0))
    seen = errors(writes(START, *found), reference)
    assert seen == {"buffer cache": pytest.approx(error, rel=1e-6, nan_ok=True)}


def test_a_buffer_that_neither_changed_is_not_compared() -> None:
    assert errors(writes(START), writes(START)) == {}
    assert writes([math.nan, 1.0], (0, math.nan)) == {}


def test_what_the_reference_left_alone_counts_by_what_was_there() -> None:
    assert errors(writes(START, (3, 5.0)), writes(START)) == {"buffer cache": 0.25}
    assert errors(writes([0.0], (0, 3.0)), writes([0.0])) == {"buffer cache": 3.0}


def test_a_buffer_of_another_shape_is_infinitely_wrong() -> None:
    module = Store(torch.zeros(2), 0)
    with state_kept(module) as before:
        module.cache = torch.ones(3)
        grown = written(module, before)
    assert errors(grown, grown) == {"buffer cache": 0.0}
    assert errors(grown, writes(START, (1, 4.0))) == {"buffer cache": math.inf}


@pytest.mark.parametrize(("entry", "least", "most"), [(7, 0, 1e-7), (6, 1, 9), (-1, 1, 9)])
def test_a_write_that_no_output_shows_is_checked(entry: int, least: float, most: float) -> None:
    torch.manual_seed(0)
    module = Store(torch.randn(100, 4), 7)
    of = Subject(module.eval(), Inputs((torch.randn(4),), {}))
    check, start = prepare(of, Cpu(), seed=0), module.cache.clone()
    module.entry = entry
    found = deviation(check, of, lambda: module(*of.inputs.args))
    assert least <= found.error <= most
    assert (found.place == "buffer cache") == (entry != 7)
    assert torch.equal(module.cache, start), "the check restores it"

"""Errors against hand-computed values, the accepted limits, and that a check restores all state."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.checking import output_check
from modescope.bench.checking.buffer_writes import Writes, buffer_errors, find_writes
from modescope.bench.checking.checks import Deviation, accepted_error, worst
from modescope.bench.checking.output_check import (
    OutputCheck,
    prepare_check,
)
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.model.module_state import keep_state
from modescope.bench.model.outputs import Outputs
from modescope.bench.model.subject import Built, Inputs, Subject
from modescope.bench.records.tolerances import eager_is_sane
from tests.helpers import probe_models
from tests.helpers.probe_models import random, scaled, variant

INF, NAN = math.inf, math.nan


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def subject(build: Callable[..., probe_models.Built], **arguments: Any) -> Subject:
    torch.manual_seed(0)
    module, args = build(**arguments)
    return Subject(module.eval(), Inputs(args, {}))


def eager(of: Subject) -> Step:
    return lambda: of.module(*of.inputs.args, **of.inputs.kwargs)


def deviation(check: OutputCheck, of: Subject, step: Step | None = None) -> Deviation:
    step = step or eager(of)
    return check.examine(Built(of, of.module, step, step), variant())


def examine(check: OutputCheck, of: Subject, step: Step | None = None) -> float:
    return deviation(check, of, step).error


@pytest.mark.parametrize(
    ("output", "answer", "error"),
    [
        (double(1.1, 1, 1, 1), double(1, 1, 1, 1), 0.05),  # sqrt(0.01 / 4) over 1
        (double(-3, -4), double(3, 4), 2.0),
        (double(0.5, 0), double(0, 0), math.sqrt(0.125)),  # zero answers: the error itself
        (double(INF, -INF, NAN, 3), double(INF, -INF, NAN, 4), 0.25),  # equal, if no number
        (double(INF, 1), double(-INF, 1), INF),
        (double(1, 1), double(-INF, 1), INF),
        (double(INF, 1), double(1, 1), INF),
        (double(NAN, 1), double(1, 1), NAN),
        (double(1, 1), double(NAN, 1), NAN),
        (double(NAN, 1), double(INF, 1), NAN),
    ],
)
def test_relative_rms_error(output: Tensor, answer: Tensor, error: float) -> None:
    (found,) = output_check.errors({"": output}, {"": answer}).values()
    assert found == pytest.approx(error, abs=1e-15, nan_ok=True)


def test_an_output_without_elements_is_not_compared() -> None:
    empty = {"": torch.empty(0, 3, dtype=torch.float64)}
    assert output_check.errors(empty, empty) == {}
    assert output_check.errors({"": double(1)}, empty) == {None: INF}
    found = [Deviation(0.0, None), Deviation(INF, None), Deviation(0.0, "output")]
    assert [each.compares_nothing for each in found] == [True, False, False]


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ({"a": double(1.01), "b": double(12), "c": double(101)}, Deviation(0.2, "output b")),
        *(
            ({"a": double(9), "b": double(1), "c": double(1), each: double(NAN)},
             Deviation(NAN, f"output {each}"))
            for each in "ac"
        ),
        ({"a": double(1), "b": double(10).view(1, 1), "c": double(100)}, Deviation(INF, None)),
        ({"a": double(1)}, Deviation(INF, None)),
        (dict.fromkeys("abcd", double(1)), Deviation(INF, None)),
    ],
)  # fmt: skip
def test_the_error_is_that_of_the_worst_output(outputs: Outputs, expected: Deviation) -> None:
    """`max` would lose a nan that does not come first."""
    answers = {"a": double(1), "b": double(10), "c": double(100)}
    found = worst(output_check.errors(outputs, answers).items())
    assert found.error == pytest.approx(expected.error, nan_ok=True)
    assert found.place == expected.place


@dataclass
class Answer:
    logits: Tensor
    parts: dict[str, Any]
    note: str = "not a tensor"


Shape = Callable[[Tensor, Tensor], Any]


class Returns(nn.Module):
    """Returns its input twice, in a given structure."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Any:
        return self.shape(x, x.clone())


def returns(shape: Shape) -> Subject:
    return Subject(Returns(shape), Inputs((torch.randn(64),), {}))


def ragged(x: Tensor, layout: torch.layout) -> Tensor:
    return torch.nested.as_nested_tensor([x[:20], x[20:]], layout=layout)


@pytest.mark.parametrize(
    ("shape", "other", "error"),
    [
        (lambda x, y: {"x": x, "y": y}, lambda x, y: {"y": y, "x": x}, 0.0),
        (lambda x, y: {"x": x, "y": y}, lambda x, y: (x, y), INF),
        (lambda x, y: torch.complex(x, y), lambda x, y: torch.complex(x, y).conj(), 2**0.5),
        (lambda x, y: (x > 0).sum(), lambda x, y: (x > 0).sum() + 1, 0.03),
        (lambda x, y: (3, Answer(x, {"y": [y]}), None),
         lambda x, y: (3, Answer(x, {"y": [y + 0.5]}), None), 0.5),
        (lambda x, y: ragged(x, torch.jagged), lambda x, y: ragged(1.5 * x, torch.jagged), 0.5),
        (lambda x, y: ragged(x, torch.strided), lambda x, y: ragged(1.5 * x, torch.strided), 0.5),
    ],
    ids=["keys in another order", "no keys", "imaginary part", "integer", "nested", "jagged",
         "nested tensor"],
)  # fmt: skip
def test_structure_imaginary_parts_and_integers_are_compared(
    shape: Shape, other: Shape, error: float
) -> None:
    own = returns(shape)
    check = prepare_check(own, Cpu(), seed=0)
    assert not check.seen.random
    assert examine(check, own) < 1e-6
    found = examine(check, Subject(Returns(other), own.inputs))
    assert found == pytest.approx(error, rel=0.9, nan_ok=True)


@pytest.mark.parametrize(
    ("shape", "left_out", "fit"),
    [
        (lambda x, y: (x, None, 3, "text"), None, True),
        (lambda x, y: (x.argmax(), x > 0), None, True),
        (lambda x, y: Answer(x, {"mask": x > 0}), ".parts['mask'] (bool, beside floating outputs)",
         True),
        (lambda x, y: (None, 3), "[0] (NoneType), [1] (int)", False),
        (lambda x, y: (x, map(abs, [1])), "[1] (map)", False),
    ],
)  # fmt: skip
def test_outputs_that_are_not_compared_are_named(
    shape: Shape, left_out: str | None, fit: bool
) -> None:
    check = prepare_check(returns(shape), Cpu(), 0)
    assert (check.unchecked, check.unfit is None) == (left_out, fit)


@pytest.mark.parametrize("wrong_at", [0, 1])
def test_the_error_is_the_worst_over_fresh_inputs(wrong_at: int) -> None:
    own = subject(scaled)
    check = prepare_check(own, Cpu(), seed=0)
    calls: list[Tensor] = []

    def step() -> Tensor:
        calls.append(own.module(*own.inputs.args))
        return calls[-1] * (7.0 if len(calls) == wrong_at + 1 else 1)

    assert examine(check, own, step) == pytest.approx(6.0)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("dtype", "eager_error", "accepted", "sane"),
    [("fp32", 2e-7, 1.06e-5, 5e-4), ("bf16", 4e-3, 1.4e-2, 0.1)],
)
def test_accepted_are_errors_near_eagers_and_eagers_near_the_tolerance(
    dtype: str, eager_error: float, accepted: float, sane: float
) -> None:
    """Up to three times eager's and a tenth of the tolerance; eager's up to five times that."""
    assert accepted_error(eager_error, dtype) == pytest.approx(accepted)
    assert eager_is_sane(sane * 0.999, dtype)
    assert not any(eager_is_sane(error, dtype) for error in (sane * 1.001, INF, NAN))


def test_checking_restores_the_inputs_and_draws_others_from_its_seed() -> None:
    own = subject(scaled)
    (x,) = own.inputs.args
    before, where = x.clone(), x.data_ptr()
    checks = [prepare_check(own, Cpu(), seed) for seed in (1, 1, 2)]
    errors = [examine(check, own) for check in checks]
    assert own.inputs.args[0].data_ptr() == where
    assert torch.equal(own.inputs.args[0], before)
    one, other = (each.args[0] for each in checks[0].inputs)
    assert not any(torch.equal(*pair) for pair in itertools.combinations((before, one, other), 2))
    assert torch.equal(one, checks[1].inputs[0].args[0])
    assert errors[0] == errors[1] != errors[2]


def test_sums_in_another_order_are_not_taken_for_random_draws() -> None:
    calls = itertools.count()
    own = returns(lambda x, y: x * (1 + 1e-13 * next(calls)))
    seen = prepare_check(own, Cpu(), seed=0).seen
    assert (seen.random, seen.depends) == (False, False)


def test_random_numbers_are_seeded_alike_for_every_step() -> None:
    own = subject(random)
    check = prepare_check(own, Cpu(), seed=0)
    assert examine(check, own) == examine(check, own)


def test_the_reference_is_float64_with_the_constants_made_in_forward() -> None:
    own = returns(lambda x, y: x * torch.tensor(0.1) + torch.full((64,), 0.3))
    check = prepare_check(own, Cpu(), seed=0)
    x = check.inputs[0].args[0].double()
    assert torch.equal(check.references[0].outputs[""], x * 0.1 + 0.3)
    with pytest.raises(ZeroDivisionError):
        prepare_check(returns(lambda x, y: 1 / 0), Cpu(), seed=0)
    assert torch.get_default_dtype() == torch.float32


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


START = [1.0, 2.0, 3.0, 4.0]

Changes = dict[int, float]
"""Entries, and what they become."""


def writes(start: list[float], changes: Changes) -> Writes:
    module = Store(torch.tensor(start), 0)
    with keep_state(module) as before:
        for entry, value in changes.items():
            module.cache[entry] = value
        return find_writes(module, before)


@pytest.mark.parametrize(
    ("start", "found", "reference", "error"),
    [
        (START, {1: 4.0}, {1: 4.0}, 0.0),
        (START, {1: 4.4}, {1: 4.0}, 0.1),
        (START, {}, {1: 4.0}, 0.5),  # 2 was to become 4
        (START, {2: 4.0}, {1: 4.0}, math.sqrt(2**2 + 1**2) / 4),
        (START, {1: 4.0, 0: 2.0}, {1: 4.0}, 0.25),
        (START, {1: NAN}, {1: 4.0}, NAN),
        (START, {3: 5.0}, {}, 0.25),  # by what was there
        ([0.0], {0: 3.0}, {}, 3.0),
    ],
)
def test_errors_are_relative_to_what_the_reference_wrote(
    start: list[float], found: Changes, reference: Changes, error: float
) -> None:
    seen = buffer_errors(writes(start, found), writes(start, reference))
    assert seen == {"buffer cache": pytest.approx(error, rel=1e-6, nan_ok=True)}


def test_a_buffer_that_did_not_change_is_not_compared_and_one_of_another_shape_is_wrong() -> None:
    assert writes(START, {}) == writes([NAN, 1.0], {0: NAN}) == {}
    module = Store(torch.zeros(2), 0)
    with keep_state(module) as before:
        module.cache = torch.ones(3)
        grown = find_writes(module, before)
    assert buffer_errors(grown, grown) == {"buffer cache": 0.0}
    assert buffer_errors(grown, writes(START, {1: 4.0})) == {"buffer cache": INF}


@pytest.mark.parametrize(("entry", "least", "most"), [(7, 0, 1e-7), (6, 1, 9), (-1, 1, 9)])
def test_a_write_that_no_output_shows_is_checked(entry: int, least: float, most: float) -> None:
    torch.manual_seed(0)
    module = Store(torch.randn(100, 4), 7)
    of = Subject(module.eval(), Inputs((torch.randn(4),), {}))
    check, start = prepare_check(of, Cpu(), seed=0), module.cache.clone()
    module.entry = entry
    found = deviation(check, of)
    assert least <= found.error <= most
    assert (found.place == "buffer cache") == (entry != 7)
    assert torch.equal(module.cache, start), "the check restores it"

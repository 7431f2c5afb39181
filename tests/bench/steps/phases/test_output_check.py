"""Errors against hand-computed values, the accepted limits, and that a check restores all state."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.records.cases import eager_is_sane
from modescope.bench.steps.outputs import Outputs
from modescope.bench.steps.phase_interface import Deviation, accepted_error, worst
from modescope.bench.steps.phases import output_check
from modescope.bench.steps.phases.output_check import (
    OutputCheck,
    Writes,
    buffer_errors,
    deviation,
    prepare_check,
    written,
)
from modescope.bench.steps.subject import Inputs, Subject, keep_state
from tests.helpers.probe_models import Built, counts, normalises, random, scaled, wordless

INF, NAN = math.inf, math.nan

START = [1.0, 2.0, 3.0, 4.0]


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def subject(build: Callable[..., Built], **arguments: Any) -> Subject:
    torch.manual_seed(0)
    module, args = build(**arguments)
    return Subject(module.eval(), Inputs(args, {}))


def eager(of: Subject) -> Step:
    return lambda: of.module(*of.inputs.args, **of.inputs.kwargs)


def examine(check: OutputCheck, of: Subject, step: Step) -> float:
    return output_check.deviation(check, of, step).error


def worst_of(outputs: Outputs, references: Outputs) -> Deviation:
    return worst(output_check.errors(outputs, references).items())


def worst_error(outputs: Outputs, answers: Outputs) -> float:
    return worst_of(outputs, answers).error


def error_of(build: Callable[..., Built], dtype: torch.dtype = torch.float32, **args: Any) -> float:
    asked = subject(build, **args)
    own = asked.cast(dtype)
    return examine(prepare_check(asked, Cpu(), seed=0), own, eager(own))


@pytest.mark.parametrize(
    ("output", "answer", "error"),
    [
        (double(1, 2, 3), double(1, 2, 3), 0.0),
        (double(1.1, 1, 1, 1), double(1, 1, 1, 1), 0.05),  # sqrt(0.01 / 4) over 1
        (double(3, 5), double(3, 4), math.sqrt(1 / 25)),
        (double(-3, -4), double(3, 4), 2.0),
        (double(0.5, 0), double(0, 0), math.sqrt(0.125)),  # zero answers: the error itself
        (double(0, 0), double(0, 0), 0.0),
        (double(2), double(0), 2.0),
        (double(), double(), 0.0),
        (double(1, math.inf), double(1, 2), math.inf),
    ],
)
def test_relative_rms_error(output: Tensor, answer: Tensor, error: float) -> None:
    assert worst_error({"": output}, {"": answer}) == pytest.approx(error, abs=1e-15)


def test_the_error_is_that_of_the_worst_output() -> None:
    answers = {"a": double(1), "b": double(10), "c": double(100)}
    outputs = {"a": double(1.01), "b": double(12), "c": double(101)}
    assert worst_error(outputs, answers) == pytest.approx(0.2)
    assert worst_of(outputs, answers).place == "output b"


@pytest.mark.parametrize("position", ["a", "b", "c"])
def test_nan_in_any_output_is_the_error(position: str) -> None:
    answers = {"a": double(1, 1), "b": double(1, 1), "c": double(1, 1)}
    outputs = {**answers, "a": double(9, 9), position: double(1, math.nan)}
    assert math.isnan(worst_error(outputs, answers))
    assert worst_of(outputs, answers).place == f"output {position}"


@pytest.mark.parametrize(
    ("output", "answer", "error"),
    [
        (double(INF, -INF, NAN, 3), double(INF, -INF, NAN, 4), 0.25),
        (double(NAN, NAN), double(NAN, NAN), 0.0),
        (double(INF, 1), double(-INF, 1), INF),
        (double(1, 1), double(-INF, 1), INF),
        (double(INF, 1), double(1, 1), INF),
        (double(NAN, 1), double(1, 1), NAN),
        (double(1, 1), double(NAN, 1), NAN),
        (double(NAN, 1), double(INF, 1), NAN),
    ],
)
def test_equal_is_equal_even_if_it_is_no_number(
    output: Tensor, answer: Tensor, error: float
) -> None:
    assert worst_error({"": output}, {"": answer}) == pytest.approx(error, nan_ok=True)


@pytest.mark.parametrize(
    "outputs",
    [
        {},
        {"a": double(1)},
        {"a": double(1), "b": double(2), "c": double(3)},
        {"a": double(1), "other": double(2)},
        {"a": double(1), "b": double(2, 2)},
        {"a": double(1), "b": double(2).view(1, 1)},
    ],
)
def test_another_structure_or_shape_is_an_infinite_error(outputs: dict[str, Tensor]) -> None:
    assert worst_of(outputs, {"a": double(1), "b": double(2)}) == Deviation(math.inf, None)


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


@dataclass
class Answer:
    logits: Tensor
    parts: dict[str, Any]
    note: str = "not a tensor"


class ModelOutput(OrderedDict[str, Tensor]):
    """As in transformers: a dict and a dataclass in one."""


SHAPES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "tuple": lambda x, y: (x, y),
    "list": lambda x, y: [x, y],
    "named tuple": Pair,
    "dict": lambda x, y: {"x": x, "y": y},
    "ordered dict": lambda x, y: OrderedDict(x=x, y=y),
    "dict in tuple": lambda x, y: (x, {"y": y}),
    "tuple in dict": lambda x, y: {"x": (x, [y])},
    "dataclass": lambda x, y: Answer(x, {"y": y}),
    "dataclass in tuple": lambda x, y: (x, Answer(x, {"y": [y]})),
    "numbers beside": lambda x, y: (3, x, None, y, "text"),
    "dict subclass": lambda x, y: ModelOutput(x=x, y=y),
}


class Returns(nn.Module):
    """Returns the input and a second output, which a step may change, in a given structure."""

    def __init__(self, shape: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.shape = shape
        self.spoiled = 0.0

    def forward(self, x: Tensor) -> Any:
        return self.shape(x, x + self.spoiled)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_tensor_of_a_nested_output_is_checked(
    shape: Callable[[Tensor, Tensor], Any],
) -> None:
    own = Subject(Returns(shape), Inputs((torch.randn(64),), {}))
    check = prepare_check(own, Cpu(), seed=0)
    assert check.unfit is None
    assert examine(check, own, eager(own)) == 0.0
    own.module.spoiled = 0.5  # type: ignore[assignment]
    assert 0.2 < examine(check, own, eager(own)) < 1.0  # an input's RMS is about 1


def test_another_structure_than_the_reference_is_found() -> None:
    asked = Subject(Returns(SHAPES["dict"]), Inputs((torch.randn(8),), {}))
    check = prepare_check(asked, Cpu(), seed=0)
    for other, same in (("tuple", False), ("dataclass", False), ("ordered dict", True)):
        own = Subject(Returns(SHAPES[other]), asked.inputs)
        assert examine(check, own, eager(own)) == (0.0 if same else math.inf)
    swapped = Subject(Returns(lambda x, y: {"y": y, "x": x}), asked.inputs)
    assert examine(check, swapped, eager(swapped)) == 0.0  # keys count, not their order


def test_the_imaginary_part_is_checked() -> None:
    asked = Subject(Returns(lambda x, y: torch.complex(x, y)), Inputs((torch.randn(64),), {}))
    check = prepare_check(asked, Cpu(), seed=0)
    conjugated = Subject(Returns(lambda x, y: torch.complex(x, y).conj()), asked.inputs)
    assert examine(check, asked, eager(asked)) < 1e-6
    assert examine(check, conjugated, eager(conjugated)) > 1


def test_integer_outputs_are_compared() -> None:
    asked = Subject(Returns(lambda x, y: x.argmax()), Inputs((torch.randn(64),), {}))
    check = prepare_check(asked, Cpu(), seed=0)
    assert examine(check, asked, eager(asked)) == 0.0
    other = Subject(Returns(lambda x, y: x.argmin()), asked.inputs)
    assert examine(check, other, eager(other)) > 0


def test_an_output_without_tensors_cannot_be_checked() -> None:
    check = prepare_check(subject(wordless), Cpu(), seed=0)
    assert check.unfit
    assert check.unchecked == "output (str)"


class Cache:
    """What a model returns beside tensors, and torch cannot look into."""


@pytest.mark.parametrize(
    ("shape", "left_out"),
    [
        (lambda x, y: (x, None, 3, "text"), None),
        (lambda x, y: {"logits": x, "cache": Cache()}, "['cache'] (Cache)"),
        (lambda x, y: (x, x.argmax()), "[1] (int64, beside floating outputs)"),
        (lambda x, y: Answer(x, {"mask": x > 0}), ".parts['mask'] (bool, beside floating outputs)"),
        (lambda x, y: (x.argmax(), x > 0), None),
        (lambda x, y: (None, 3), "[0] (NoneType), [1] (int)"),
        (lambda x, y: Cache(), "output (Cache)"),
        (lambda x, y: [x, *(Cache() for _ in range(10))],
         ", ".join(f"[{n}] (Cache)" for n in range(1, 9)) + ", 2 more"),
    ],
)  # fmt: skip
def test_outputs_that_are_not_compared_are_named(
    shape: Callable[[Tensor, Tensor], Any], left_out: str | None
) -> None:
    assert (
        prepare_check(Subject(Returns(shape), Inputs((torch.randn(8),), {})), Cpu(), 0).unchecked
        == left_out
    )


@pytest.mark.parametrize("wrong_at", [0, 1])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, 7.0])
def test_the_error_is_the_worst_over_fresh_inputs(wrong_at: int, wrong: float) -> None:
    """`max` over errors would lose a nan that does not come first."""
    own = subject(scaled)
    check = prepare_check(own, Cpu(), seed=0)
    calls: list[Tensor] = []

    def step() -> Tensor:
        calls.append(own.module(*own.inputs.args))
        return calls[-1] * (wrong if len(calls) == wrong_at + 1 else 1)

    error = examine(check, own, step)
    assert len(calls) == 2
    assert error == pytest.approx(wrong - 1, nan_ok=True)
    assert not error <= accepted_error(0.0, "bf16")


def test_a_replay_that_ignores_its_inputs_is_caught() -> None:
    own = subject(scaled)
    check = prepare_check(own, Cpu(), seed=0)
    own.inputs.assign(check.inputs[0])
    captured = eager(own)()
    assert examine(check, own, lambda: captured) > 0.5


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(torch.float32, 1e-9, 1e-7), (torch.bfloat16, 1e-3, 1e-2), (torch.float16, 1e-4, 1e-3)],
)
def test_the_error_is_of_the_order_of_the_precision(
    dtype: torch.dtype, low: float, high: float
) -> None:
    assert low < error_of(scaled, dtype) < high


@pytest.mark.parametrize(
    ("dtype", "eager_error", "accepted"),
    [
        ("fp32", 0.0, 1e-5),
        ("fp32", 2e-7, 1.06e-5),
        ("tf32", 3e-4, 1e-3),
        ("bf16", 4e-3, 1.4e-2),
        ("fp16", 5e-4, 2e-3),
    ],
)
def test_accepted_is_three_times_eager_and_a_tenth_of_the_tolerance(
    dtype: str, eager_error: float, accepted: float
) -> None:
    assert accepted_error(eager_error, dtype) == pytest.approx(accepted)


@pytest.mark.parametrize(
    ("dtype", "limit"), [("fp32", 5e-4), ("tf32", 5e-3), ("bf16", 0.1), ("fp16", 0.025)]
)
def test_eager_is_accepted_up_to_five_times_the_tolerance(dtype: str, limit: float) -> None:
    assert eager_is_sane(0.0, dtype)
    assert eager_is_sane(limit * 0.999, dtype)
    for error in (limit * 1.001, math.inf, math.nan):
        assert not eager_is_sane(error, dtype)


def test_an_output_that_is_nan_everywhere_is_equal_to_itself() -> None:
    own = Subject(Returns(lambda x, y: x.abs().neg().sqrt()), Inputs((torch.randn(8),), {}))
    check = prepare_check(own, Cpu(), seed=0)
    assert not check.seen.random
    assert examine(check, own, eager(own)) == 0.0
    assert math.isnan(examine(check, own, lambda: own.inputs.args[0]))


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "replaced"])
def test_a_counter_is_restored_after_every_call(in_place: bool) -> None:
    own = subject(counts, in_place=in_place)
    before = own.module.get_buffer("calls")
    check = prepare_check(own, Cpu(), seed=0)
    assert check.unfit is None
    assert examine(check, own, eager(own)) < 1e-6
    assert examine(check, own, eager(own)) < 1e-6
    assert own.module.get_buffer("calls") is before
    assert before == 1


def test_running_statistics_are_restored_after_every_call() -> None:
    own = subject(normalises)
    check = prepare_check(own, Cpu(), seed=0)
    assert check.unfit is None
    assert examine(check, own, eager(own)) < 1e-6
    assert not own.module.get_buffer("mean").any()
    assert (own.module.get_buffer("variance") == 1).all()
    own.module(*own.inputs.args)  # the probe does learn
    assert own.module.get_buffer("mean").any()


def test_checking_restores_the_inputs() -> None:
    own = subject(scaled)
    before = own.inputs.map(torch.clone)
    where = own.inputs.args[0].data_ptr()
    check = prepare_check(own, Cpu(), seed=0)
    examine(check, own, eager(own))
    assert torch.equal(own.inputs.args[0], before.args[0])
    assert own.inputs.args[0].data_ptr() == where
    for fresh in check.inputs:
        assert not torch.equal(fresh.args[0], before.args[0])
    assert not torch.equal(check.inputs[0].args[0], check.inputs[1].args[0])


def test_dropout_makes_a_model_random_in_training_mode_only() -> None:
    own = subject(lambda: (nn.Dropout(0.5), (torch.randn(64),)))
    assert not prepare_check(own, Cpu(), seed=0).seen.random
    own.module.train()
    assert prepare_check(own, Cpu(), seed=0).seen.random


def test_a_model_that_draws_random_numbers_is_recognised() -> None:
    assert prepare_check(subject(random), Cpu(), seed=0).seen.random


def test_sums_in_another_order_are_not_taken_for_random_draws() -> None:
    calls = itertools.count()
    own = Subject(
        Returns(lambda x, y: x * (1 + 1e-13 * next(calls))), Inputs((torch.randn(8),), {})
    )
    seen = prepare_check(own, Cpu(), seed=0).seen
    assert (seen.random, seen.depends) == (False, False)


def test_seed_decides_the_check() -> None:
    own = subject(scaled)
    checks = [prepare_check(own, Cpu(), seed) for seed in (1, 1, 2)]
    errors = [examine(check, own, eager(own)) for check in checks]
    assert errors[0] == errors[1] != errors[2]
    assert torch.equal(checks[0].inputs[0].args[0], checks[1].inputs[0].args[0])


def test_random_numbers_are_seeded_alike_for_every_step() -> None:
    own = subject(random)
    check = prepare_check(own, Cpu(), seed=0)
    assert examine(check, own, eager(own)) == examine(check, own, eager(own))


def test_constants_created_in_forward_have_the_precision_of_the_reference() -> None:
    own = Subject(
        Returns(lambda x, y: x * torch.tensor(0.1) + torch.full((8,), 0.3)),
        Inputs((torch.ones(8),), {}),
    )
    check = prepare_check(own, Cpu(), seed=0)
    x = check.inputs[0].args[0].double()
    assert torch.equal(check.references[0].outputs[""], x * 0.1 + 0.3)
    assert torch.get_default_dtype() == torch.float32


def test_the_default_dtype_is_restored_after_a_failed_forward() -> None:
    own = Subject(Returns(lambda x, y: 1 / 0), Inputs((torch.ones(8),), {}))
    with pytest.raises(ZeroDivisionError):
        prepare_check(own, Cpu(), seed=0)
    assert torch.get_default_dtype() == torch.float32


def test_the_reference_is_float64_and_leaves_the_model_unchanged() -> None:
    own = subject(scaled)
    weight = own.module.get_parameter("weight")
    check = prepare_check(own, Cpu(), seed=0)
    x = check.inputs[1].args[0]
    assert torch.equal(check.references[1].outputs[""], weight.double() * x.double())
    assert weight.dtype == x.dtype == torch.float32


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
    with keep_state(module) as before:
        for entry, value in changes:
            module.cache[entry] = value
        return written(module, before)


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
    seen = buffer_errors(writes(START, *found), reference)
    assert seen == {"buffer cache": pytest.approx(error, rel=1e-6, nan_ok=True)}


def test_a_buffer_that_neither_changed_is_not_compared() -> None:
    assert buffer_errors(writes(START), writes(START)) == {}
    assert writes([math.nan, 1.0], (0, math.nan)) == {}


def test_what_the_reference_left_alone_counts_by_what_was_there() -> None:
    assert buffer_errors(writes(START, (3, 5.0)), writes(START)) == {"buffer cache": 0.25}
    assert buffer_errors(writes([0.0], (0, 3.0)), writes([0.0])) == {"buffer cache": 3.0}


def test_a_buffer_of_another_shape_is_infinitely_wrong() -> None:
    module = Store(torch.zeros(2), 0)
    with keep_state(module) as before:
        module.cache = torch.ones(3)
        grown = written(module, before)
    assert buffer_errors(grown, grown) == {"buffer cache": 0.0}
    assert buffer_errors(grown, writes(START, (1, 4.0))) == {"buffer cache": math.inf}


@pytest.mark.parametrize(("entry", "least", "most"), [(7, 0, 1e-7), (6, 1, 9), (-1, 1, 9)])
def test_a_write_that_no_output_shows_is_checked(entry: int, least: float, most: float) -> None:
    torch.manual_seed(0)
    module = Store(torch.randn(100, 4), 7)
    of = Subject(module.eval(), Inputs((torch.randn(4),), {}))
    check, start = prepare_check(of, Cpu(), seed=0), module.cache.clone()
    module.entry = entry
    found = deviation(check, of, lambda: module(*of.inputs.args))
    assert least <= found.error <= most
    assert (found.place == "buffer cache") == (entry != 7)
    assert torch.equal(module.cache, start), "the check restores it"

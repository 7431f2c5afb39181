"""Every fault in a step is found, and no correct step fails; in eager, which is fast."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.checking import reference as answers
from modescope.bench.checking import training_check
from modescope.bench.checking.checks import Deviation, Limit
from modescope.bench.checking.reference import CPU, ErrorScale, Reference
from modescope.bench.modes import losses
from modescope.bench.modes.trainer import Trainer, trainer_of
from modescope.bench.records.cases import Variant
from modescope.bench.records.optimizers import OPTIMIZERS
from modescope.bench.records.tolerances import TOLERANCE
from tests.helpers import trained_models
from tests.helpers.probe_models import Applies, random, variant
from tests.helpers.trained_models import (
    EAGER,
    LEARNERS,
    built,
    check_of,
    equal,
    everything,
    examined,
    small_mlp,
    small_transformer,
    subject,
    with_step,
)

AMP = variant("bf16", autocast=True)
HALF_AMP = variant("fp16", autocast=True)
BF16 = variant("bf16")


def limit(healthy: Deviation, asked: Variant) -> Limit:
    """As of any check of training."""
    return check_of(subject(small_mlp)).limit(healthy, asked)


@pytest.mark.full
@pytest.mark.parametrize(
    ("asked", "optimizer"),
    [(EAGER, "adamw"), (BF16, "sgd"), (AMP, "adamw"), (HALF_AMP, "adamw")],
    ids=["fp32", "bf16", "amp", "fp16"],
)
@pytest.mark.parametrize("name", LEARNERS)
def test_eager_passes_the_training_check(name: str, asked: Variant, optimizer: str) -> None:
    found = examined(LEARNERS[name], asked, optimizer=optimizer)
    check = check_of(subject(LEARNERS[name]), optimizer=optimizer)
    if name == "normalised":  # whose gradients jump where rounding switches a ReLU
        seen = check.rounding(asked)
        found = seen.check.examine(built(seen.subject, asked, optimizer=optimizer), asked)
        assert seen.limit.accepts(found), found
    else:
        assert found.error <= TOLERANCE[asked.dtype], found


FAULTS = {
    "zero_grad forgotten": ("forward", "backward", "update"),
    "optimizer skipped": ("clear", "forward", "backward"),
    "optimizer twice": ("clear", "forward", "backward", "update", "update"),
    "half a gradient": ("clear", "forward", "backward", "halve", "update"),
}


def play(trainer: Trainer, fault: str) -> Tensor:
    """A step that consists of these parts."""
    for part in FAULTS[fault]:
        if part == "forward":
            loss: Tensor = trainer.forward()
        elif part == "backward":
            trainer.backward(loss)
        elif part == "halve":
            trainer.gradients()[-1].mul_(0.5)
        else:
            getattr(trainer, part)()
    return loss


@pytest.mark.parametrize("asked", [EAGER, AMP], ids=["fp32", "amp"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_step_with_a_fault_is_found(fault: str, optimizer: str, asked: Variant) -> None:
    of = subject(small_mlp)
    check = check_of(of, optimizer=optimizer)
    healthy, faulty = (built(of, asked, optimizer=optimizer) for _ in range(2))
    accepted = limit(check.examine(healthy, asked), asked)
    faulty = with_step(faulty, lambda trainer: play(trainer, fault))
    assert not accepted.accepts(check.examine(faulty, asked))


@pytest.mark.parametrize(
    ("optimizer", "option", "factor"),
    [("sgd", "lr", 1.05), ("adamw", "lr", 1.05), ("adamw", "weight_decay", 0.0)],
)
def test_a_wrong_option_of_the_optimizer_is_found(
    optimizer: str, option: str, factor: float
) -> None:
    of = subject(small_transformer)
    check = check_of(of, optimizer=optimizer)
    healthy, faulty = (built(of, optimizer=optimizer) for _ in range(2))
    trainer_of(faulty).optimizer.param_groups[0][option] *= factor
    accepted, found = limit(check.examine(healthy, EAGER), EAGER), check.examine(faulty, EAGER)
    assert not accepted.accepts(found)
    assert (found.place or "").startswith("update of ")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_unused_parameter_that_moves_is_found(optimizer: str) -> None:
    def step(trainer: Trainer) -> Tensor:
        loss = trainer.step()
        with torch.no_grad():
            trainer.trained[2].mul_(1.001)
        return loss

    of = subject(trained_models.partly_used)
    faulty = with_step(built(of, optimizer=optimizer), step)
    found = check_of(of, optimizer=optimizer).examine(faulty, EAGER)
    assert found.error > 0.01
    assert found.place == "update of unused.weight"


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


INF, NAN = math.inf, math.nan
SCALE = ErrorScale(share=0.1, of_weight=0.01, clear=0.5)


@pytest.mark.parametrize(
    ("reference", "came", "error"),
    [
        (Reference(vector(3, 4)), vector(3, 4.5), (0.1, 0.08)),  # 0.5 of 5; 0.5 x 4 of 25
        (Reference(vector(3, 4)), vector(3.4, 3.7), (0.1, 0.0)),  # across
        (Reference(vector(0.03, 0.04), typical=5), vector(0.03, 0.09), (0.1, 0.008)),  # of 0.1 x 5
        (Reference(vector(3, 4), typical=5), vector(3, 4.5), (0.1, 0.08)),
        (Reference(vector(0.03, 0.04), typical=1, weight=50), vector(0.03, 0.09), (0.1, 0.008)),
        (Reference(vector(0, 0)), vector(0, 2), (2.0, 2.0)),
        (Reference(vector(3, 4), gradients=vector(0.6, 0.4)), vector(3, 99), (0.0, 0.0)),
        (Reference(vector(3, 4), gradients=vector(0.4, 0.5)), vector(99, 4.5), (0.1, 0.08)),
        (Reference(vector(1, INF, NAN)), vector(1.1, INF, NAN), (0.1, 0.1)),  # equal infinities
        (Reference(vector(1, INF, NAN)), vector(1, 0, NAN), (INF, NAN)),
    ],
)
def test_errors_are_relative_to_what_the_precision_can_show(
    reference: Reference, came: Tensor, error: tuple[float, float]
) -> None:
    assert reference.error(came, SCALE) == pytest.approx(error, nan_ok=True)


def test_one_rounding_is_within_the_tolerance() -> None:
    for dtype, eps in (("fp32", 2**-23), ("bf16", 2**-7), ("fp16", 2**-10)):
        by = answers.error_scale(variant(dtype))
        moved, _ = Reference(vector(0.0), weight=1.0).error(vector(eps), by)
        assert moved == pytest.approx(TOLERANCE[dtype])
    assert answers.error_scale(AMP).of_weight == pytest.approx(2**-23 / 2e-2)  # weights stay fp32


def test_references_have_the_typical_size_of_their_kind() -> None:
    module = nn.Linear(2, 1, bias=False)
    outcome = {
        "loss of step 1": vector(7),
        "gradient of weight in step 1": vector(3, 4),
        "gradient of weight in step 2": vector(6, 0.1),
        "update of weight": vector(1, 1),
    }
    found = answers.references(outcome, module, False, CPU)
    typical = math.sqrt((25 + 36.01) / 2)
    assert found["gradient of weight in step 1"].typical == pytest.approx(typical)
    assert found["update of weight"].typical == pytest.approx(math.sqrt(2))
    assert found["update of weight"].weight == pytest.approx(module.weight.norm().item())
    of_elements = math.sqrt((25 + 36.01) / 4)
    torch.testing.assert_close(found["update of weight"].gradients, vector(3, 0.1) / of_elements)
    assert found["loss of step 1"] == Reference(vector(7))
    assert answers.references(outcome, module, True, CPU)["update of weight"].gradients is None


@pytest.mark.parametrize(
    "outcome", [{}, {"a": vector(1)}, {"a": vector(1), "b": vector(2, 3)}, {"c": vector(1)}]
)
def test_missing_values_or_other_shapes_are_an_infinite_error(outcome: dict[str, Tensor]) -> None:
    expected = {"a": Reference(vector(1)), "b": Reference(vector(2))}
    assert answers.deviation(outcome, expected, SCALE).error == math.inf


def test_sgd_in_float64_by_hand() -> None:
    """Of one weight: loss (w x - t)^2, gradient 2 x (w x - t)."""
    of = subject(lambda: (nn.Linear(1, 1, bias=False), (torch.randn(1, 1),)))
    check = check_of(of, lr=0.25)
    found = {place: each.value.item() for place, each in check.references.items()}
    start = weight = of.module.get_parameter("weight").double().item()
    expected = {}
    for number, batch in enumerate(check.inputs, 1):
        x, target = batch.args[0].double().item(), batch.targets[0].double().item()
        gradient = 2 * x * (weight * x - target)
        expected[f"loss of step {number}"] = (weight * x - target) ** 2
        expected[f"gradient of weight in step {number}"] = gradient
        weight -= 0.25 * gradient
    assert found == pytest.approx({**expected, "update of weight": weight - start})


def test_only_trained_parameters_are_checked() -> None:
    places = set(check_of(subject(trained_models.frozen)).references)
    assert not any("0.weight" in place for place in places)
    places = set(check_of(subject(trained_models.partly_used)).references)
    assert "update of unused.weight" in places  # it must stay
    assert not any(place.startswith("gradient of unused") for place in places)


class Narrow(nn.Module):
    """Computes in fp32 whatever its weights, on rows between ends that must increase."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, ends: Tensor) -> Tensor:
        if not bool((ends.diff() > 0).all()):
            raise ValueError("ends must increase")
        y: Tensor = self.linear(x.float())
        return y * ends.sum()


def test_training_is_checked_on_valid_inputs_against_fp32_where_float64_fails() -> None:
    of = subject(lambda: (Narrow(), (torch.randn(8, 4), torch.arange(3))))
    check = check_of(of)
    assert (check.seen.checked_inputs, check.seen.checked_against) == ("floats", "fp32")
    accepted = check.limit(None, EAGER)
    assert accepted == Limit(TOLERANCE["fp32"], TOLERANCE["fp32"])
    assert accepted.accepts(check.examine(built(of), EAGER))
    faulty = with_step(built(of), lambda trainer: play(trainer, "half a gradient"))
    assert not accepted.accepts(check.examine(faulty, EAGER))
    assert check.rounding(EAGER) is None
    assert (check.seen.random, check_of(subject(random)).seen.random) == (False, True)


def test_a_model_with_its_own_loss_is_checked() -> None:
    summed = Applies(lambda weight, x: {"loss": (weight * x).sum()})
    of = subject(lambda: (summed, (torch.ones(3, 4),)), "output")
    check = check_of(of, loss="output")
    gradient = check.references["gradient of weight in step 1"].value
    torch.testing.assert_close(gradient, check.inputs[0].args[0].double().sum(0))
    assert check.examine(built(of, loss="output"), EAGER).error < 1e-4


@pytest.mark.parametrize(
    ("name", "asked", "optimizer"),
    [("normalised", EAGER, "sgd"), ("tied", HALF_AMP, "adamw")],
    ids=["fp32", "fp16"],
)
def test_the_training_check_restores_model_and_optimizer(
    name: str, asked: Variant, optimizer: str
) -> None:
    of = subject(LEARNERS[name])
    before_asking = [each.clone() for each in of.tensors()]
    check = check_of(of, optimizer=optimizer)
    assert equal(before_asking, of.tensors())
    made = built(of, asked, optimizer=optimizer)
    before, start = everything(made), trainer_of(made).start
    assert check.examine(made, asked).error > 0
    assert check.rounding(asked).limit.error > 0
    check.results(made)
    assert equal(before, everything(made))
    assert trainer_of(made).start is start
    assert trainer_of(made).scaler is None or trainer_of(made).scaler.get_scale() == start.scale


def test_targets_are_drawn_for_each_output() -> None:
    two = Applies(lambda weight, x: (weight * x, {"b": x.sum() * weight}))
    of = subject(lambda: (two, (torch.randn(3, 4),)))
    assert [each.shape for each in of.inputs.targets] == [(3, 4), (4,)]
    first, second = (outputs := of.module(*of.inputs.args))[0], outputs[1]["b"]
    a, b = of.inputs.targets
    expected = (first - a).square().mean() + (second - b).square().mean()
    torch.testing.assert_close(losses.mse(outputs, of.inputs), expected)


def keep_the_scale(trainer: Trainer, scale: float) -> None:
    trainer.scaler.update(scale)  # after a step that lowered it


def count_skipped_steps(trainer: Trainer, scale: float) -> None:
    """Like an optimizer that learns of the overflow too late: state moved, parameters did not."""
    for tensor in trainer.tensors():
        tensor += 1


def skip_the_next(trainer: Trainer, scale: float) -> None:
    if trainer.scaler.get_scale() < scale:
        trainer.optimizer.param_groups[0]["lr"] = 0.0


@pytest.mark.parametrize(
    ("optimizer", "meddle"),
    [("sgd", keep_the_scale), ("adamw", count_skipped_steps), ("sgd", skip_the_next)],
)
def test_a_faulty_scaler_is_found(optimizer: str, meddle: Callable[[Trainer, float], None]) -> None:
    def step(trainer: Trainer) -> Tensor:
        scale = trainer.scaler.get_scale()
        loss = trainer.step()
        meddle(trainer, scale)
        return loss

    of = subject(small_mlp)
    made = with_step(built(of, HALF_AMP, optimizer=optimizer), step)
    seen = check_of(of, optimizer=optimizer).examine_state(made)
    assert seen.scaling is not None
    assert seen.scaling.overflow_skipped is False
    assert "did not skip a step" in str(seen.reason)


@pytest.mark.parametrize(
    ("function", "lr"),
    [
        (lambda weight, x: (weight * x.clamp(-1, 1)).sum(), 0.1),
        (lambda weight, x: x @ weight, 1e-12),
    ],
    ids=["clamped", "nothing moves"],
)
def test_without_an_overflow_or_an_update_the_result_is_unknown(
    function: Callable[[Tensor, Tensor], Tensor], lr: float
) -> None:
    of = subject(lambda: (Applies(function), (torch.randn(4),)), "output")
    made = built(of, HALF_AMP, loss="output", lr=lr)
    assert training_check.skips_overflow(made) is None


# Limits: the general one, and larger ones of single parameters

LIMIT = Limit(error=1e-3, scale=0.01, larger={"gradient of a": 0.05, "gradient of b": 0.001})
A, B, C = (f"gradient of {each} in step 2" for each in "abc")


@pytest.mark.parametrize(
    ("scales", "worst", "accepted"),
    [
        ({}, None, True),
        ({A: 0.04, C: 0.009}, C, True),
        ({A: 0.06, C: 0.009}, A, False),
        ({B: 0.009}, B, True),  # its own limit never lowers the general one
        ({C: 0.04}, C, False),
        ({C: math.nan}, C, False),
    ],
)
def test_a_limit_of_a_parameter_holds_in_every_step(
    scales: dict[str, float], worst: str | None, accepted: bool
) -> None:
    found = Deviation(1e-4, None, scales)
    assert LIMIT.worst_scale(found).place == worst
    assert LIMIT.accepts(found) is accepted


@pytest.mark.parametrize(
    ("other", "covered"),
    [(Limit(1e-3, 0.01), True), (Limit(2e-3, 0.005), False), (Limit(5e-4, 0.02), False)],
)
def test_a_limit_covers_one_that_is_larger_in_nothing(other: Limit, covered: bool) -> None:
    assert LIMIT.covers(other) == covered

"""Every fault in a step is found, and no correct step fails; in eager, which is fast."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.records import cases
from modescope.bench.records.cases import OPTIMIZERS, Training, Variant
from modescope.bench.steps import modes
from modescope.bench.steps.phase_interface import Deviation, Limit
from modescope.bench.steps.phases import TrainingPhase
from modescope.bench.steps.subject import Built, Inputs, Subject, redraw
from modescope.bench.steps.training import losses, training_check
from modescope.bench.steps.training import reference as answers
from modescope.bench.steps.training.reference import CPU, ErrorScale, Reference
from modescope.bench.steps.training.trainer import Trainer, trainer_of
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


# No false alarm


@pytest.mark.full
@pytest.mark.parametrize("asked", [EAGER, BF16, AMP, HALF_AMP], ids=["fp32", "bf16", "amp", "fp16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", LEARNERS)
def test_eager_passes_the_training_check(name: str, optimizer: str, asked: Variant) -> None:
    found = examined(LEARNERS[name], asked, optimizer=optimizer)
    check = check_of(subject(LEARNERS[name]), optimizer=optimizer)
    if name == "normalised":  # whose gradients jump where rounding switches a ReLU
        seen = check.rounding(asked)
        found = seen.check.examine(built(seen.subject, asked, optimizer=optimizer), asked)
        assert seen.limit.accepts(found), found
    else:
        assert found.error <= cases.TOLERANCE[asked.dtype], found


@pytest.mark.parametrize("implementation", ["for_loop", "foreach", "fused"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_all_implementations_of_an_optimizer_agree(optimizer: str, implementation: str) -> None:
    options = {"optimizer": optimizer, "implementation": implementation}
    for asked in (EAGER, HALF_AMP):
        usual = limit(examined(small_mlp, asked, optimizer=optimizer), asked)
        assert usual.accepts(examined(small_mlp, asked, **options))


# Faults of a step


def no_zero_grad(trainer: Trainer) -> Tensor:
    loss: Tensor = trainer.forward()
    trainer.backward(loss)
    trainer.update()
    return loss


def no_update(trainer: Trainer) -> Tensor:
    trainer.clear()
    loss: Tensor = trainer.forward()
    trainer.backward(loss)
    return loss


def two_updates(trainer: Trainer) -> Tensor:
    loss = trainer.step()
    trainer.optimizer.step()
    return loss


class Stale:
    """Updates with the gradients of the step before."""

    def __init__(self) -> None:
        self.before: list[Tensor] = []

    def __call__(self, trainer: Trainer) -> Tensor:
        loss = no_update(trainer)
        fresh = trainer.gradients()
        for parameter, gradient in zip(trainer.trained, self.before or fresh, strict=True):
            parameter.grad = gradient
        trainer.update()
        for parameter, gradient in zip(trainer.trained, fresh, strict=True):
            parameter.grad = gradient
        self.before = fresh
        return loss


def half_gradient(trainer: Trainer) -> Tensor:
    loss = no_update(trainer)
    trainer.gradients()[-1].mul_(0.5)
    trainer.update()
    return loss


FAULTS: dict[str, Callable[[], Callable[[Trainer], Tensor]]] = {
    "zero_grad forgotten": lambda: no_zero_grad,
    "optimizer skipped": lambda: no_update,
    "optimizer twice": lambda: two_updates,
    "gradients of the step before": Stale,
    "half a gradient": lambda: half_gradient,
}


@pytest.mark.parametrize("asked", [EAGER, AMP], ids=["fp32", "amp"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_step_with_a_fault_is_found(name: str, optimizer: str, asked: Variant) -> None:
    of = subject(small_mlp)
    check = check_of(of, optimizer=optimizer)
    healthy = built(of, asked, optimizer=optimizer)
    accepted = limit(check.examine(healthy, asked), asked)
    faulty = with_step(built(of, asked, optimizer=optimizer), FAULTS[name]())
    assert not accepted.accepts(check.examine(faulty, asked))


def test_missing_weight_decay_is_found() -> None:
    of = subject(small_mlp)
    check = check_of(of, optimizer="adamw")
    healthy, faulty = (built(of, optimizer="adamw") for _ in range(2))
    trainer_of(faulty).optimizer.param_groups[0]["weight_decay"] = 0.0
    accepted = limit(check.examine(healthy, EAGER), EAGER)
    found = check.examine(faulty, EAGER)
    assert found.error > accepted.error
    assert found.place.startswith("update of ")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_wrong_learning_rate_is_found(optimizer: str) -> None:
    of = subject(small_transformer)
    check = check_of(of, optimizer=optimizer)
    healthy, faulty = (built(of, optimizer=optimizer) for _ in range(2))
    trainer_of(faulty).optimizer.param_groups[0]["lr"] *= 1.05
    accepted = limit(check.examine(healthy, EAGER), EAGER)
    assert not accepted.accepts(check.examine(faulty, EAGER))


class ReplaysTheFirst(Cpu):
    """A capture that trains on its first batch for ever."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    def capture(self, step: Step) -> Step:
        first = self.inputs.map(torch.clone)

        def replay() -> object:
            fresh = self.inputs.map(torch.clone)
            with torch.no_grad():
                self.inputs.assign(first)
                outcome = torch.enable_grad()(step)()
                self.inputs.assign(fresh)
            return outcome

        return replay


class Ignores(Cpu):
    """A capture whose replays do nothing."""

    def capture(self, step: Step) -> Step:
        outcome = step()
        return lambda: outcome


class Replays(Cpu):
    """A capture whose replays write gradients where the captured step had them, as CUDA's do."""

    def __init__(self, own: Subject) -> None:
        self.trained = list(own.module.parameters())

    def capture(self, step: Step) -> Step:
        outcome = torch.as_tensor(step())
        static = [parameter.grad for parameter in self.trained]

        def replay() -> object:
            pointed_at = [parameter.grad for parameter in self.trained]
            fresh = torch.as_tensor(step()).detach()
            for parameter, memory, own in zip(self.trained, static, pointed_at, strict=True):
                memory.copy_(parameter.grad)
                parameter.grad = own
            return outcome.detach().copy_(fresh)

        return replay


GRAPH = variant(graph=True)
FAKES: dict[str, Callable[[Subject], Cpu]] = {
    "first batch": lambda own: ReplaysTheFirst(own.inputs),
    "nothing": lambda own: Ignores(),
    "faithful": Replays,
}


def captured(of: Subject, device: str, optimizer: str) -> Built:
    own = of.cast(torch.float32)
    options = Training(optimizer, capturable=False if optimizer == "adamw" else None)
    return modes.build(own, GRAPH, True, FAKES[device](own), TrainingPhase(options))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("device", FAKES)
def test_a_replay_must_follow_fresh_batches(device: str, optimizer: str) -> None:
    of = subject(small_mlp)
    made = captured(of, device, optimizer)
    found = check_of(of, optimizer=optimizer).examine(made, GRAPH)
    assert (found.error <= 1e-4) == (device == "faithful")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_replay_is_right_after_a_live_call(optimizer: str) -> None:
    """A live call gives parameters new gradient tensors, which replays do not write."""
    of = subject(small_mlp)
    made = captured(of, "faithful", optimizer)
    made.live()
    assert check_of(of, optimizer=optimizer).examine(made, GRAPH).error <= 1e-4


# Errors worked out by hand


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


SCALE = ErrorScale(share=0.1, of_weight=0.01, clear=0.5)


@pytest.mark.parametrize(
    ("reference", "came", "error"),
    [
        (Reference(vector(3, 4)), vector(3, 4.5), (0.1, 0.08)),  # 0.5 of 5; 0.5 x 4 of 25
        (Reference(vector(3, 4)), vector(3.06, 4.08), (0.02, 0.02)),  # 2 % too large
        (Reference(vector(3, 4)), vector(3.4, 3.7), (0.1, 0.0)),  # across
        (Reference(vector(0.03, 0.04), typical=5), vector(0.03, 0.09), (0.1, 0.008)),  # of 0.1 x 5
        (Reference(vector(3, 4), typical=5), vector(3, 4.5), (0.1, 0.08)),
        (Reference(vector(0.03, 0.04), typical=1, weight=50), vector(0.03, 0.09), (0.1, 0.008)),
        (Reference(vector(0, 0)), vector(0, 2), (2.0, 2.0)),
        (Reference(vector(3, 4), gradients=vector(0.6, 0.4)), vector(3, 99), (0.0, 0.0)),
        (Reference(vector(3, 4), gradients=vector(0.4, 0.5)), vector(99, 4.5), (0.1, 0.08)),
    ],
)
def test_errors_are_relative_to_what_the_precision_can_show(
    reference: Reference, came: Tensor, error: tuple[float, float]
) -> None:
    assert reference.error(came, SCALE) == pytest.approx(error)


def test_one_rounding_is_within_the_tolerance() -> None:
    for dtype, eps in (("fp32", 2**-23), ("bf16", 2**-7), ("fp16", 2**-10)):
        by = answers.error_scale(variant(dtype))
        weight = vector(1.0)
        moved, _ = Reference(vector(0.0), weight=1.0).error(weight * eps, by)
        assert moved == pytest.approx(cases.TOLERANCE[dtype])
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


# Contents of a check


def test_each_step_has_its_own_batch() -> None:
    check = check_of(subject(small_mlp))
    assert len(check.inputs) == training_check.STEPS == 3
    for kind in ("args", "targets"):
        batches = [getattr(each, kind)[0] for each in check.inputs]
        assert not any(torch.equal(a, b) for a, b in itertools.combinations(batches, 2))
    assert sum(place.startswith("loss") for place in check.references) == 3
    assert sum(place.startswith("gradient") for place in check.references) == 3 * 4
    assert sum(place.startswith("update") for place in check.references) == 4


def test_sgd_in_float64_by_hand() -> None:
    """Of one weight: loss (w x - t)^2, gradient 2 x (w x - t)."""
    of = subject(lambda: (nn.Linear(1, 1, bias=False), (torch.randn(1, 1),)))
    check = check_of(of, lr=0.25)
    weight = of.module.get_parameter("weight").double().item()
    start = weight
    for number, batch in enumerate(check.inputs, 1):
        x, target = batch.args[0].double().item(), batch.targets[0].double().item()
        gradient = 2 * x * (weight * x - target)
        assert check.references[f"loss of step {number}"].value.item() == pytest.approx(
            (weight * x - target) ** 2
        )
        of_step = check.references[f"gradient of weight in step {number}"].value.item()
        assert of_step == pytest.approx(gradient)
        weight -= 0.25 * gradient
    assert check.references["update of weight"].value.item() == pytest.approx(weight - start)


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
    seen = check.seen
    assert (seen.checked_inputs, seen.checked_against) == ("floats", "fp32")
    accepted = check.limit(None, EAGER)
    assert accepted == Limit(cases.TOLERANCE["fp32"], cases.TOLERANCE["fp32"])
    assert accepted.accepts(check.examine(built(of), EAGER))
    faulty = with_step(built(of), half_gradient)
    assert not accepted.accepts(check.examine(faulty, EAGER))
    assert check.rounding(EAGER) is None


def test_equal_infinities_in_training_are_equal() -> None:
    value = torch.tensor([1.0, math.inf, math.nan], dtype=torch.float64)
    reference = Reference(value, typical=1.0)
    assert reference.error(value.clone(), answers.EXACT) == (0.0, 0.0)
    error, _ = reference.error(value.nan_to_num(0, 0, 0), answers.EXACT)
    assert not error <= 1.0
    assert reference.error(value + torch.tensor([0.1, 0, 0]), answers.EXACT)[0] == pytest.approx(
        0.1
    )


def test_an_unused_parameter_that_moves_is_found() -> None:
    of = subject(trained_models.partly_used)

    def step(trainer: Trainer) -> Tensor:
        loss = trainer.step()
        with torch.no_grad():
            trainer.trained[2].mul_(1.001)
        return loss

    for optimizer in OPTIMIZERS:
        faulty = with_step(built(of, optimizer=optimizer), step)
        found = check_of(of, optimizer=optimizer).examine(faulty, EAGER)
        assert found.error > 0.01
        assert found.place == "update of unused.weight"


def test_models_that_draw_random_numbers_are_known() -> None:
    assert check_of(subject(random)).seen.random
    dropping = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    assert check_of(subject(lambda: (dropping, (torch.randn(8, 4),)))).seen.random
    assert not check_of(subject(small_mlp)).seen.random


class SkipsAtRandom(nn.Module):
    """Skips a layer with a probability; draws for it even where that is 0."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        skipped = float(torch.rand(())) < self.probability
        y: Tensor = self.second(x if skipped else self.first(x))
        return y


@pytest.mark.parametrize(("probability", "is_random"), [(0.2, True), (0.0, False)])
def test_randomness_that_two_runs_need_not_show_is_known(
    probability: float, is_random: bool
) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        made = subject(lambda: (SkipsAtRandom(probability), (torch.randn(8, 4),)))
        recipe = check_of(made).recipe
        assert recipe.check(100 * seed).seen.random == is_random


def test_a_model_with_its_own_loss_is_checked() -> None:
    of = subject(
        lambda: (Applies(lambda weight, x: {"loss": (weight * x).sum()}), (torch.ones(3, 4),)),
        "output",
    )
    check = check_of(of, loss="output")
    gradient = check.references["gradient of weight in step 1"].value
    torch.testing.assert_close(gradient, check.inputs[0].args[0].double().sum(0))
    assert check.examine(built(of, loss="output"), EAGER).error < 1e-4


@pytest.mark.parametrize("name", ["small_mlp", "normalised", "tied"])
@pytest.mark.parametrize("asked", [EAGER, HALF_AMP], ids=["fp32", "fp16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
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


def test_the_same_seed_draws_the_same_batches() -> None:
    of = subject(small_mlp)
    one, other = check_of(of), check_of(of)
    assert torch.equal(one.inputs[2].args[0], other.inputs[2].args[0])
    assert torch.equal(redraw(of.inputs, 1).targets[0], one.inputs[0].targets[0])


def test_targets_are_drawn_for_each_output() -> None:
    of = subject(
        lambda: (
            Applies(lambda weight, x: (weight * x, {"b": x.sum() * weight})),
            (torch.randn(3, 4),),
        )
    )
    assert [each.shape for each in of.inputs.targets] == [(3, 4), (4,)]
    outputs = of.module(*of.inputs.args)
    expected = (outputs[0] - of.inputs.targets[0]).square().mean() + (
        outputs[1]["b"] - of.inputs.targets[1]
    ).square().mean()
    torch.testing.assert_close(losses.mse(outputs, of.inputs), expected)

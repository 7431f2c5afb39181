"""Every fault in a step is found, and no healthy one is called wrong: in eager, which is fast."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from bench import accuracy, examination, modes, tolerances
from bench.devices import Cpu, Step
from bench.records import Training, Variant
from bench.subject import Inputs, Subject, redraw
from bench.training import answers, exam, losses
from bench.training.answers import Answer, Ruler
from bench.training.choices import OPTIMIZERS
from bench.training.trainer import Trainer
from tests import learners
from tests.learners import (
    EAGER,
    LEARNERS,
    built,
    equal,
    everything,
    exam_of,
    examined,
    normalised,
    small_mlp,
    small_transformer,
    subject,
    with_step,
)
from tests.probes import Applies, random, variant

AMP = variant("bf16", autocast=True)
HALF_AMP = variant("fp16", autocast=True)
BF16 = variant("bf16")


def limit(eager_error: float, asked: Variant) -> float:
    return accuracy.accepted_error(eager_error, asked.dtype)


# No false alarm


@pytest.mark.parametrize("asked", [EAGER, BF16, AMP, HALF_AMP], ids=["fp32", "bf16", "amp", "fp16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", LEARNERS)
def test_eager_learns_rightly(name: str, optimizer: str, asked: Variant) -> None:
    found = examined(LEARNERS[name], asked, optimizer=optimizer)
    case = learners.case(LEARNERS[name], asked)
    assert examination.eager_is_sane(case, found.error, asked.dtype), found
    if name != "normalised":  # whose gradients jump
        assert found.error <= tolerances.TOLERANCE[asked.dtype], found


@pytest.mark.parametrize("implementation", ["for_loop", "foreach", "fused"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_all_implementations_of_an_optimizer_do_the_same(
    optimizer: str, implementation: str
) -> None:
    options = {"optimizer": optimizer, "implementation": implementation}
    for asked in (EAGER, HALF_AMP):
        usual = examined(small_mlp, asked, optimizer=optimizer).error
        assert examined(small_mlp, asked, **options).error <= limit(usual, asked)


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
    questions = exam_of(of, optimizer=optimizer)
    healthy = built(of, asked, optimizer=optimizer)
    accepted = limit(exam.examine(questions, healthy, asked).error, asked)
    faulty = with_step(built(of, asked, optimizer=optimizer), FAULTS[name]())
    found = exam.examine(questions, faulty, asked, accepted)
    assert found.error > accepted


def test_weight_decay_that_got_lost_is_found() -> None:
    of = subject(small_mlp)
    questions = exam_of(of, optimizer="adamw")
    healthy, faulty = (built(of, optimizer="adamw") for _ in range(2))
    faulty.trainer.optimizer.param_groups[0]["weight_decay"] = 0.0
    accepted = limit(exam.examine(questions, healthy, EAGER).error, EAGER)
    found = exam.examine(questions, faulty, EAGER, accepted)
    assert found.error > accepted
    assert found.place.startswith("update of ")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_another_learning_rate_is_found(optimizer: str) -> None:
    of = subject(small_transformer)
    questions = exam_of(of, optimizer=optimizer)
    healthy, faulty = (built(of, optimizer=optimizer) for _ in range(2))
    faulty.trainer.optimizer.param_groups[0]["lr"] *= 1.05
    accepted = limit(exam.examine(questions, healthy, EAGER).error, EAGER)
    assert exam.examine(questions, faulty, EAGER, accepted).error > accepted


class ReplaysTheFirst(Cpu):
    """A capture that trains on what it was captured with, whatever its inputs hold by then."""

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


def captured(of: Subject, device: str, optimizer: str) -> modes.Built:
    own = of.cast(torch.float32)
    options = Training(optimizer, capturable=False if optimizer == "adamw" else None)
    return modes.build(own, GRAPH, True, FAKES[device](own), options)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("device", FAKES)
def test_a_replay_must_follow_fresh_batches(device: str, optimizer: str) -> None:
    of = subject(small_mlp)
    made = captured(of, device, optimizer)
    found = exam.examine(exam_of(of, optimizer=optimizer), made, GRAPH)
    assert (found.error <= 1e-4) == (device == "faithful")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_live_call_in_between_leaves_a_replay_right(optimizer: str) -> None:
    """It gives parameters other gradients than those that replays write."""
    of = subject(small_mlp)
    made = captured(of, "faithful", optimizer)
    made.live()
    assert exam.examine(exam_of(of, optimizer=optimizer), made, GRAPH).error <= 1e-4


# Jumps of gradients


def off_by(share: float, calls: range) -> Callable[[Trainer], Tensor]:
    """A step whose first gradient is off in some of its calls."""
    count = itertools.count()

    def step(trainer: Trainer) -> Tensor:
        loss = no_update(trainer)
        if next(count) in calls:
            trainer.gradients()[0].mul_(1 + share)
        trainer.update()
        return loss

    return step


JUMP = tolerances.jump("fp32")


@pytest.mark.parametrize(
    ("share", "calls", "wrong"),
    [
        (0.5 * JUMP, range(1, 2), False),  # with one batch of many
        (0.5 * JUMP, range(6), False),  # with all of two exams, and none of the third
        (0.5 * JUMP, range(99), True),
        (2 * JUMP, range(1, 2), True),  # more than a jump
        (math.nan, range(1, 2), True),
        (math.inf, range(1, 2), True),
    ],
)
def test_what_is_wrong_is_wrong_with_other_batches_too(
    share: float, calls: range, wrong: bool
) -> None:
    of = subject(small_mlp)
    questions = exam_of(of)
    accepted = limit(exam.examine(questions, built(of), EAGER).error, EAGER)
    found = exam.examine(questions, with_step(built(of), off_by(share, calls)), EAGER, accepted)
    assert (not found.error <= accepted) == wrong


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_eager_may_be_off_by_a_jump_in_training_alone(dtype: str) -> None:
    training, inference = (
        learners.case(normalised),
        replace(learners.case(normalised), training=None),
    )
    error = 0.9 * tolerances.jump(dtype)
    assert examination.eager_is_sane(training, error, dtype)
    assert not examination.eager_is_sane(inference, error, dtype)
    for none in (2 * tolerances.jump(dtype), math.inf, math.nan):
        assert not examination.eager_is_sane(training, none, dtype)


# Errors worked out by hand


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


RULER = Ruler(share=0.1, of_weight=0.01, clear=0.5)


@pytest.mark.parametrize(
    ("answer", "came", "error"),
    [
        (Answer(vector(3, 4)), vector(3, 4.5), 0.1),  # 0.5 of 5
        (Answer(vector(0.03, 0.04), typical=5), vector(0.03, 0.09), 0.1),  # 0.05 of 0.1 x 5
        (Answer(vector(3, 4), typical=5), vector(3, 4.5), 0.1),
        (Answer(vector(0.03, 0.04), typical=1, weight=50), vector(0.03, 0.09), 0.1),
        (Answer(vector(0, 0)), vector(0, 2), 2.0),
        (Answer(vector(3, 4), gradients=vector(0.6, 0.4)), vector(3, 99), 0.0),
        (Answer(vector(3, 4), gradients=vector(0.4, 0.5)), vector(99, 4.5), 0.1),
    ],
)
def test_an_error_is_held_against_what_can_be_shown(
    answer: Answer, came: Tensor, error: float
) -> None:
    assert answer.error(came, RULER) == pytest.approx(error)


def test_one_rounding_is_no_more_than_the_tolerance() -> None:
    for dtype, eps in (("fp32", 2**-23), ("bf16", 2**-7), ("fp16", 2**-10)):
        by = answers.ruler(variant(dtype))
        weight = vector(1.0)
        moved = Answer(vector(0.0), weight=1.0).error(weight * eps, by)
        assert moved == pytest.approx(tolerances.TOLERANCE[dtype])
    assert answers.ruler(AMP).of_weight == pytest.approx(2**-23 / 2e-2)  # weights stay fp32


def test_answers_know_what_is_typical() -> None:
    module = nn.Linear(2, 1, bias=False)
    outcome = {
        "loss of step 1": vector(7),
        "gradient of weight in step 1": vector(3, 4),
        "gradient of weight in step 2": vector(6, 0.1),
        "update of weight": vector(1, 1),
    }
    found = answers.answers(outcome, module, follows_size=False)
    typical = math.sqrt((25 + 36.01) / 2)
    assert found["gradient of weight in step 1"].typical == pytest.approx(typical)
    assert found["update of weight"].typical == pytest.approx(math.sqrt(2))
    assert found["update of weight"].weight == pytest.approx(module.weight.norm().item())
    of_elements = math.sqrt((25 + 36.01) / 4)
    torch.testing.assert_close(found["update of weight"].gradients, vector(3, 0.1) / of_elements)
    assert found["loss of step 1"] == Answer(vector(7))
    assert answers.answers(outcome, module, follows_size=True)["update of weight"].gradients is None


@pytest.mark.parametrize(
    "outcome", [{}, {"a": vector(1)}, {"a": vector(1), "b": vector(2, 3)}, {"c": vector(1)}]
)
def test_what_is_missing_or_has_another_shape_is_wrong(outcome: dict[str, Tensor]) -> None:
    expected = {"a": Answer(vector(1)), "b": Answer(vector(2))}
    assert math.inf in dict(answers.errors(outcome, expected, RULER)).values()


# What an exam asks


def test_each_step_has_a_batch_of_its_own() -> None:
    questions = exam_of(subject(small_mlp))
    assert len(questions.inputs) == exam.STEPS == 3
    for kind in ("args", "targets"):
        batches = [getattr(each, kind)[0] for each in questions.inputs]
        assert not any(torch.equal(a, b) for a, b in itertools.combinations(batches, 2))
    assert sum(place.startswith("loss") for place in questions.answers) == 3
    assert sum(place.startswith("gradient") for place in questions.answers) == 3 * 4
    assert sum(place.startswith("update") for place in questions.answers) == 4


def test_sgd_in_float64_by_hand() -> None:
    """Of one weight: loss (w x - t)^2, gradient 2 x (w x - t)."""
    of = subject(lambda: (nn.Linear(1, 1, bias=False), (torch.randn(1, 1),)))
    questions = exam_of(of, lr=0.25)
    weight = of.module.get_parameter("weight").double().item()
    start = weight
    for number, batch in enumerate(questions.inputs, 1):
        x, target = batch.args[0].double().item(), batch.targets[0].double().item()
        gradient = 2 * x * (weight * x - target)
        assert questions.answers[f"loss of step {number}"].value.item() == pytest.approx(
            (weight * x - target) ** 2
        )
        of_step = questions.answers[f"gradient of weight in step {number}"].value.item()
        assert of_step == pytest.approx(gradient)
        weight -= 0.25 * gradient
    assert questions.answers["update of weight"].value.item() == pytest.approx(weight - start)


def test_only_what_is_trained_is_asked() -> None:
    places = set(exam_of(subject(learners.frozen)).answers)
    assert not any("0.weight" in place for place in places)
    places = set(exam_of(subject(learners.partly_used)).answers)
    assert "update of unused.weight" in places  # it must stay
    assert not any(place.startswith("gradient of unused") for place in places)


def test_an_unused_parameter_that_moves_is_found() -> None:
    of = subject(learners.partly_used)

    def step(trainer: Trainer) -> Tensor:
        loss = trainer.step()
        with torch.no_grad():
            trainer.trained[2].mul_(1.001)
        return loss

    for optimizer in OPTIMIZERS:
        faulty = with_step(built(of, optimizer=optimizer), step)
        found = exam.examine(exam_of(of, optimizer=optimizer), faulty, EAGER)
        assert found.error > 0.01
        assert found.place == "update of unused.weight"


def test_models_that_draw_random_numbers_are_unfit() -> None:
    assert exam_of(subject(random)).unfit == exam.STOCHASTIC
    dropping = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    assert exam_of(subject(lambda: (dropping, (torch.randn(8, 4),)))).unfit == exam.STOCHASTIC


def test_a_loss_of_its_own_is_followed() -> None:
    of = subject(
        lambda: (Applies(lambda weight, x: {"loss": (weight * x).sum()}), (torch.ones(3, 4),)),
        "output",
    )
    questions = exam_of(of, loss="output")
    gradient = questions.answers["gradient of weight in step 1"].value
    torch.testing.assert_close(gradient, questions.inputs[0].args[0].double().sum(0))
    assert exam.examine(questions, built(of, loss="output"), EAGER).error < 1e-4


@pytest.mark.parametrize("name", ["small_mlp", "normalised", "tied"])
@pytest.mark.parametrize("asked", [EAGER, HALF_AMP], ids=["fp32", "fp16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_exam_leaves_everything_as_it_was(name: str, asked: Variant, optimizer: str) -> None:
    of = subject(LEARNERS[name])
    before_asking = [each.clone() for each in of.tensors()]
    questions = exam_of(of, optimizer=optimizer)
    assert equal(before_asking, of.tensors())
    made = built(of, asked, optimizer=optimizer)
    before, start = everything(made), made.trainer.start
    assert exam.examine(questions, made, asked, limit=0.0).error > 0  # looked at again, too
    assert equal(before, everything(made))
    assert made.trainer.start is start
    assert made.trainer.scaler is None or made.trainer.scaler.get_scale() == start.scale


def test_the_same_seed_asks_the_same() -> None:
    of = subject(small_mlp)
    one, other = exam_of(of), exam_of(of)
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

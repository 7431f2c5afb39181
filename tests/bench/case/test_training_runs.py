"""From a training case to its result, without stand-ins, in eager."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
import torch
from torch import nn

from modescope.bench.case import paired_timing, passes, random_judge, runner
from modescope.bench.case.first_call import enter
from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.records.cases import Case, Variant
from modescope.bench.records.columns import LossScaling, Rounds, StepParts
from modescope.bench.records.results import Result
from modescope.bench.steps import modes
from modescope.bench.steps import phases as training_phase
from modescope.bench.steps.phases import TrainingPhase
from modescope.bench.steps.subject import Built
from modescope.bench.steps.training import trainer, training_check
from modescope.bench.steps.training.trainer import trainer_of
from modescope.bench.timing import comparison, paired
from tests.helpers import trained_models
from tests.helpers.null_columns import NULL_ON_A_CPU, nulls
from tests.helpers.probe_models import random, silent, smoke, variant
from tests.helpers.trained_models import (
    EAGER,
    equal,
    everything,
    normalised,
    parameters,
    small_mlp,
    subject,
)

pytestmark = pytest.mark.usefixtures("as_in_a_child", "one_thread", "restored_settings")

AMP = variant("bf16", autocast=True)
HALF_AMP = variant("fp16", autocast=True)


def run(asked: Case, phases: list[str] | None = None) -> Result:
    def report(phase: str, keep: object = None) -> None:
        if phases is not None:
            phases.append(phase)

    return runner.run(report, asked, smoke())


NO_DISPATCH = {"dispatch_rounds_s", "baseline_dispatch_rounds_s"}
OF_TRAINING = {
    *NO_DISPATCH,
    *("loss_scale", "overflow_skipped", "scaler_rounds_s", "parts_note"),
}


@pytest.mark.parametrize("asked", [EAGER, AMP, HALF_AMP], ids=["fp32", "bf16", "fp16"])
def test_an_ok_result_is_complete(asked: Variant) -> None:
    phases: list[str] = []
    result = run(trained_models.case(small_mlp, asked), phases)
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    missing = {name for name, value in asdict(found).items() if value is None}
    expected = OF_TRAINING if asked is not HALF_AMP else NO_DISPATCH | {"parts_note"}
    of_trained = {each.name for group in (LossScaling, StepParts) for each in fields(group)}
    assert missing & (of_trained | NO_DISPATCH) == expected
    with_them = replace(found, **dict.fromkeys(of_trained))
    assert nulls(with_them) - expected <= NULL_ON_A_CPU
    assert found.dispatch_note == TrainingPhase.no_dispatch
    assert found.in_effect is True
    assert found.seen_grad == "enabled"
    assert found.error <= found.error_limit
    assert found.error_place.split()[0] in ("loss", "gradient", "update")
    assert found.recompiles == 0
    assert len(found.forward_rounds_s) == smoke().budget.clock_rounds
    order = ["reference", "first call", "check", "baseline", "warm-up", "timing", "check again"]
    order += ["evidence", "clocks", "parts"]
    assert [phase for phase in phases if phase in order] == order


class Watch:
    """What a run builds, examines and times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.built: list[Built] = []
        self.examined: list[Built] = []
        self.timed: tuple[Step, Step | None] | None = None
        self.before_timing: Callable[[], None] = lambda: None
        build, examine = modes.build, training_check.TrainingCheck.examine

        def watched_build(*arguments: Any) -> Built:
            made = build(*arguments)
            if arguments[1] is not training_check.REFERENCE:
                self.built.append(made)
            return made

        def watched_examine(check: Any, built: Built, *others: Any) -> Any:
            self.examined.append(built)
            return examine(check, built, *others)

        def watched_paired(case: Step, baseline: Step | None, *others: Any) -> Rounds:
            self.timed = case, baseline
            self.before_timing()
            return paired.play_pairs(case, baseline, *others)

        monkeypatch.setattr(modes, "build", watched_build)
        monkeypatch.setattr(training_check.TrainingCheck, "examine", watched_examine)
        monkeypatch.setattr(comparison, "play_pairs", watched_paired)

    @property
    def candidate(self) -> Built:
        return self.built[1]  # after eager


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def test_the_timed_step_is_the_checked_step(watch: Watch) -> None:
    run(trained_models.case(small_mlp, AMP))
    eager, candidate, baseline = watch.built[:3]
    expected = [eager, candidate, baseline, candidate]
    assert [id(each) for each in watch.examined] == [id(each) for each in expected]
    assert watch.timed == (candidate.step, baseline.step)


def test_a_run_restores_parameters_and_optimizer_state(watch: Watch) -> None:
    """Warm-up, rounds, clocks, parts and both checks train; buffers change, too."""
    before: list[Any] = []
    watch.before_timing = lambda: before.append(list(trainer_of(watch.candidate).start.values))
    assert run(trained_models.case(normalised, HALF_AMP, optimizer="adamw")).status == "ok"
    candidate = watch.candidate
    assert equal(parameters(candidate), before[0])
    assert not any(bool(state.any()) for state in trainer_of(candidate).tensors())
    assert trainer_of(candidate).scaler.get_scale() == trainer_of(candidate).start.scale
    torch.manual_seed(0)
    original, _ = normalised()
    buffers = dict(original.named_buffers())
    assert all(torch.equal(b, buffers[n]) for n, b in candidate.subject.module.named_buffers())


def test_every_block_begins_with_the_first_step(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block's first step has the loss of training's first step."""
    losses: list[float] = []
    first: list[bool] = []
    redraw = paired_timing.redraw

    def noted(*arguments: Any) -> Callable[[], object]:
        place = redraw(*arguments)

        def draw() -> object:
            held = place()
            made = watch.candidate
            with made.keep_state():
                losses.append(torch.as_tensor(made.step()).item())
            first.append(equal(parameters(made), list(trainer_of(made).start.values)))
            return held

        return draw

    monkeypatch.setattr(paired_timing, "redraw", noted)
    run(trained_models.case(small_mlp, optimizer="adamw"))
    assert len(losses) >= 2 * smoke().budget.pilot_rounds
    assert len(set(losses)) == 1
    assert all(first)


def test_a_step_that_turns_wrong_while_timed_is_a_wrong_result(watch: Watch) -> None:
    def spoil() -> None:
        trainer_of(watch.candidate).optimizer.param_groups[0]["lr"] *= 2

    watch.before_timing = spoil
    result = run(trained_models.case(small_mlp))
    assert result.status == "wrong_result"
    assert result.findings.error_place.startswith("update of ")
    assert "against float64 in update of " in result.reason


def test_a_step_that_ignores_its_gradients_is_a_wrong_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only in the candidate, so eager's error sets the limit."""
    build, built = modes.build, []

    def faulty(*arguments: Any) -> Built:
        made = build(*arguments)
        if arguments[1] is not training_check.REFERENCE:
            built.append(made)
        if len(built) == 2:
            monkeypatch.setattr(trainer_of(built[-1]), "update", lambda: None)
        return made

    monkeypatch.setattr(modes, "build", faulty)
    result = run(trained_models.case(small_mlp))
    assert result.status == "wrong_result"
    assert result.findings.error > 0.5
    assert result.findings.overflow_skipped is None


def of(target: str, asked: Variant = EAGER, **options: Any) -> Case:
    made = trained_models.case(small_mlp, asked, **options)
    return replace(made, model=replace(made.model, target=target, name=f"custom:{target}"))


@pytest.mark.parametrize("checkpoint", ["none", pytest.param("children", marks=pytest.mark.full)])
def test_a_model_with_dropout_is_timed_and_checked_without_it(checkpoint: str) -> None:
    phases: list[str] = []
    asked = of("tests.helpers.published:recurrent", checkpoint=checkpoint)
    result = run(asked, phases)
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    assert found.checked == "without_randomness"
    assert found.checked_note == "in a copy in which all probabilities of dropout are 0"
    assert found.error <= found.error_limit < 1e-3
    assert 0.2 < found.drawn_spread < 5
    assert found.latency_rounds_s
    assert phases[-1] == "last check"


def test_randomness_without_a_switch_is_timed_and_not_checked() -> None:
    result = run(of(f"{random.__module__}:random"))
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    assert (found.checked, found.checked_note) == ("not", random_judge.NO_SWITCH)
    assert found.error is None
    assert found.latency_rounds_s


def test_what_a_copy_without_dropout_cannot_do_is_no_failure_of_the_case() -> None:
    result = run(of(f"{__name__}:needs_dropout"))
    assert (result.status, result.reason) == ("ok", None)
    assert result.findings.checked == "not"
    assert "division by zero" in result.findings.checked_note


class NeedsDropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> Any:
        return self.dropout(self.linear(x)) * (1 / self.dropout.p)


def needs_dropout() -> Any:
    return NeedsDropout(), (torch.randn(2, 4),)


def test_the_first_call_includes_the_step_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy of the starting state is made before the first call."""

    def slow(module: torch.nn.Module) -> Any:
        time.sleep(1.0)
        return trainer.start_of(module)

    monkeypatch.setattr(training_phase, "start_of", slow)
    asked = trained_models.case(small_mlp)
    first = [enter(subject(small_mlp), EAGER, asked, Cpu(), smoke()) for _ in range(2)]
    assert min(each.first_call_s for each in first) < 1.0


def test_passes_leave_the_timed_step_unchanged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    scenes: list[passes.Scene] = []

    def watched(progress: Any, scene: passes.Scene, findings: Any) -> Any:
        scenes.append(scene)
        candidate = scene.candidate.built
        assert passes._rebuilt(scene, EAGER.mode).state.start is trainer_of(candidate).start
        before = everything(scene.candidate.built)
        for each in passes.PASSES:
            if each.applies(scene) and each.name != "ceilings":
                findings = each.run(scene, findings)
                assert equal(before, everything(scene.candidate.built)), each.name
        return findings

    monkeypatch.setattr(passes, "run", watched)
    plan = replace(smoke(), profile=True, memory=True, results_dir=str(tmp_path))
    asked = trained_models.case(normalised, HALF_AMP, optimizer="adamw")
    found = runner.run(silent, asked, plan).findings
    assert len(scenes) == 1
    assert found.kernels > 0
    assert found.flops > 0
    assert found.optimizer_state_bytes > 0
    assert found.overflow_skipped is True

"""From a training case to its result, without stand-ins, in eager."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.case import paired_timing, runner
from modescope.bench.checking import random_judge
from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence.compiler_counts import read_compiled
from modescope.bench.evidence.first_call import enter, meet_libraries
from modescope.bench.modes import phases as training_phase
from modescope.bench.modes import trainer
from modescope.bench.modes.phases import TrainingPhase, phase_of
from modescope.bench.modes.trainer import trainer_of
from modescope.bench.passes import passes
from modescope.bench.records.cases import Case, Mode, Variant
from modescope.bench.records.errors import Progress
from modescope.bench.records.results import Result
from tests.helpers import trained_models
from tests.helpers.findings import rounds_of
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
from tests.helpers.watched_runs import Watch

pytestmark = pytest.mark.usefixtures("as_in_a_child", "one_thread", "restored_settings")

AMP = variant("bf16", autocast=True)
HALF_AMP = variant("fp16", autocast=True)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def run(asked: Case, progress: Progress = silent) -> Result:
    return runner.run(progress, asked, smoke())


@pytest.mark.parametrize("asked", [EAGER, AMP, HALF_AMP], ids=["fp32", "bf16", "fp16"])
def test_an_ok_result_is_complete_and_of_the_checked_steps(asked: Variant, watch: Watch) -> None:
    phases: list[str] = []
    asks = trained_models.case(small_mlp, asked)
    result = run(asks, lambda phase, *kept: phases.append(phase))
    assert (result.status, result.reason) == ("ok", None)
    watch.assert_the_checked_steps_are_timed()
    found = result.findings
    assert (found.clocks.dispatch_rounds_s, found.clocks.baseline_dispatch_rounds_s) == (None, None)
    assert found.clocks.dispatch_note == TrainingPhase.no_dispatch
    of_scaler = (
        found.loss_scaling.loss_scale,
        found.loss_scaling.overflow_skipped,
        found.step_parts.scaler_rounds_s,
    )
    assert (None not in of_scaler) if asked is HALF_AMP else of_scaler == (None, None, None)
    assert found.step_parts.parts_note is None
    assert (found.checks.in_effect, found.checks.seen_grad, found.checks.recompiles) == (
        True,
        "enabled",
        0,
    )
    assert found.checks.error <= found.checks.error_limit
    assert found.checks.error_place.split()[0] in ("loss", "gradient", "update")
    assert found.step_parts.forward_rounds_s
    order = ["reference", "first call", "check", "baseline", "warm-up", "timing", "check again"]
    order += ["evidence", "clocks", "parts"]
    assert [phase for phase in phases if phase in order] == order


def test_every_block_begins_with_the_first_step_and_the_run_restores_everything(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warm-up, rounds, clocks, parts and both checks train; buffers change, too."""
    losses: set[float] = set()
    redraw = paired_timing.redraw

    def noted(*arguments: Any) -> Callable[[], object]:
        place = redraw(*arguments)

        def draw() -> object:
            held, made = place(), watch.candidate
            assert equal(parameters(made), list(trainer_of(made).start.values))
            with made.keep_state():
                losses.add(torch.as_tensor(made.step()).item())
            return held

        return draw

    monkeypatch.setattr(paired_timing, "redraw", noted)
    before: list[Any] = []
    watch.before_timing = lambda: before.extend(trainer_of(watch.candidate).start.values)
    assert run(trained_models.case(normalised, HALF_AMP, optimizer="adamw")).status == "ok"
    assert len(losses) == 1
    candidate = watch.candidate
    assert equal(parameters(candidate), before)
    assert not any(bool(state.any()) for state in trainer_of(candidate).tensors())
    assert trainer_of(candidate).scaler.get_scale() == trainer_of(candidate).start.scale
    torch.manual_seed(0)
    original, _ = normalised()
    buffers = dict(original.named_buffers())
    assert all(torch.equal(b, buffers[n]) for n, b in candidate.subject.module.named_buffers())


def of(target: str, **options: Any) -> Case:
    made = trained_models.case(small_mlp, **options)
    return replace(made, model=replace(made.model, target=target, name=f"custom:{target}"))


@pytest.mark.parametrize("checkpoint", ["none", pytest.param("children", marks=pytest.mark.full)])
def test_a_model_with_dropout_is_timed_and_checked_without_it(checkpoint: str) -> None:
    phases: list[str] = []
    result = run(
        of("tests.helpers.published:recurrent", checkpoint=checkpoint),
        lambda phase, *kept: phases.append(phase),
    )
    found = result.findings
    assert (result.status, result.reason) == ("ok", None)
    assert found.checks.checked == "without_randomness"
    assert found.checks.error <= found.checks.error_limit < 1e-3
    assert 0.2 < found.checks.drawn_spread < 5
    assert rounds_of(found).latency_rounds_s
    assert phases[-1] == "last check"


def test_randomness_that_cannot_be_switched_off_is_timed_and_not_checked() -> None:
    result = run(of(f"{random.__module__}:random"))
    found = result.findings
    assert (result.status, found.checks.checked, found.checks.error) == ("ok", "not", None)
    assert found.checks.checked_note == random_judge.NO_SWITCH
    assert rounds_of(found).latency_rounds_s


def test_the_first_call_includes_the_step_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy of the starting state, which takes 100 s here, is made before the first call."""
    device, skipped_s = Cpu(), [0.0]
    monkeypatch.setattr(device, "clock", lambda: time.perf_counter() + sum(skipped_s))

    def slow(module: torch.nn.Module) -> Any:
        skipped_s.append(100.0)
        return trainer.start_of(module)

    monkeypatch.setattr(training_phase, "start_of", slow)
    first = enter(subject(small_mlp), EAGER, trained_models.case(small_mlp), device, smoke())
    assert sum(skipped_s) >= 100
    assert first.first_call_s < 50


def test_the_untimed_call_before_a_first_call_is_one_eager_step_of_a_copy() -> None:
    """On a GPU it comes before the first call of each side."""
    of, device, calls = subject(small_mlp), Cpu(), list[None]()
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *_: calls.append(None))
    before, graphs = [w.detach().clone() for w in of.module.parameters()], read_compiled()
    meet_libraries(
        of,
        Variant(Mode("compile", "enabled", compile="default"), "fp32"),
        device,
        phase_of(trained_models.case(small_mlp).options),
    )
    hook.remove()
    assert len(calls) == len(list(of.module.modules()))
    assert read_compiled().since(graphs).graphs == 0
    assert equal(before, [each.detach() for each in of.module.parameters()])


def test_passes_leave_the_timed_step_unchanged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    scenes: list[passes.Scene] = []

    def watched(progress: Any, scene: passes.Scene, findings: Any) -> Any:
        scenes.append(scene)
        candidate = scene.candidate.built
        assert passes._rebuilt(scene, EAGER.mode).state.start is trainer_of(candidate).start
        before = everything(candidate)
        for each in passes.PASSES:
            if each.applies(scene) and each.name != "ceilings":
                findings = each.run(scene, findings)
                assert equal(before, everything(candidate)), each.name
        return findings

    monkeypatch.setattr(passes, "run", watched)
    plan = replace(smoke(), profile=True, memory=True, results_dir=str(tmp_path))
    asked = trained_models.case(normalised, HALF_AMP, optimizer="adamw")
    found = runner.run(silent, asked, plan).findings
    assert len(scenes) == 1
    assert min(found.profile.kernels, found.work.flops, found.memory.optimizer_state_bytes) > 0
    assert found.loss_scaling.overflow_skipped is True

"""Case -> Result where the case trains, with the real parts, in eager."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch

from bench import empty, entrant, examination, modes, passes, race, rounds, runner
from bench.devices import Cpu, Step
from bench.entrant import enter
from bench.findings import Trained
from bench.records import Case, Result, Variant
from bench.rounds import Rounds
from bench.training import trainer
from tests import learners
from tests.bench.test_runner import MAY_BE_NOISE, NULL_ON_A_CPU, nulls
from tests.learners import EAGER, equal, everything, normalised, parameters, small_mlp, subject
from tests.probes import random, silent, smoke, variant

pytestmark = pytest.mark.usefixtures("as_in_a_child")

AMP = variant("bf16", autocast=True)
HALF_AMP = variant("fp16", autocast=True)


@pytest.fixture(autouse=True)
def _process_as_it_was() -> Iterator[None]:
    with torch._dynamo.config.patch():
        yield


def run(asked: Case, phases: list[str] | None = None) -> Result:
    def report(phase: str, keep: object = None) -> None:
        if phases is not None:
            phases.append(phase)

    return runner.run(report, asked, smoke())


OF_TRAINING = {
    "dispatch_rounds_s",
    *("loss_scale", "overflow_skipped", "scaler_rounds_s", "parts_note"),
}


@pytest.mark.parametrize("asked", [EAGER, AMP, HALF_AMP], ids=["fp32", "bf16", "fp16"])
def test_an_ok_result_is_complete(asked: Variant) -> None:
    phases: list[str] = []
    result = run(learners.case(small_mlp, asked), phases)
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    missing = {name for name, value in asdict(found).items() if value is None}
    expected = OF_TRAINING if asked is not HALF_AMP else {"dispatch_rounds_s", "parts_note"}
    of_trained = set(Trained.__dataclass_fields__)
    assert missing & (of_trained | {"dispatch_rounds_s"}) == expected
    with_them = replace(found, **dict.fromkeys(of_trained))
    assert nulls(with_them) - MAY_BE_NOISE - expected <= NULL_ON_A_CPU
    assert found.dispatch_note == empty.TRAINS
    assert found.in_effect is True
    assert found.seen_grad == "enabled"
    assert found.error <= found.error_limit
    assert found.error_place.split()[0] in ("loss", "gradient", "update")
    assert found.recompiles == 0
    assert len(found.forward_rounds_s) == smoke().budget.clock_rounds
    order = ["reference", "first call", "check", "baseline", "warm-up", "timing", "evidence"]
    order += ["dispatch", "parts"]
    assert [phase for phase in phases if phase in order] == order


class Watch:
    """What a run builds, examines and times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.built: list[modes.Built] = []
        self.examined: list[modes.Built] = []
        self.timed: tuple[Step, Step | None] | None = None
        self.before_timing: Callable[[], None] = lambda: None
        build, examine, paired = modes.build, examination.examine, rounds.paired

        def watched_build(*arguments: Any) -> modes.Built:
            self.built.append(build(*arguments))
            return self.built[-1]

        def watched_examine(exam: Any, built: modes.Built, *others: Any) -> Any:
            self.examined.append(built)
            return examine(exam, built, *others)

        def watched_paired(case: Step, baseline: Step | None, *others: Any) -> Rounds:
            self.timed = case, baseline
            self.before_timing()
            return paired(case, baseline, *others)

        monkeypatch.setattr(modes, "build", watched_build)
        monkeypatch.setattr(examination, "examine", watched_examine)
        monkeypatch.setattr(race, "paired", watched_paired)

    @property
    def candidate(self) -> modes.Built:
        return self.built[2]  # after the reference and eager


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def test_what_is_timed_is_what_was_examined(watch: Watch) -> None:
    run(learners.case(small_mlp, AMP))
    _, eager, candidate, baseline = watch.built[:4]
    expected = [eager, candidate, baseline, candidate]
    assert [id(each) for each in watch.examined] == [id(each) for each in expected]
    assert watch.timed == (candidate.step, baseline.step)


def test_everything_ends_as_it_began(watch: Watch) -> None:
    """Warm-up, rounds, clocks, parts and both exams train; buffers learn, too."""
    before: list[Any] = []
    watch.before_timing = lambda: before.append(list(watch.candidate.trainer.start.values))
    assert run(learners.case(normalised, HALF_AMP, optimizer="adamw")).status == "ok"
    candidate = watch.candidate
    assert equal(parameters(candidate), before[0])
    assert not any(bool(state.any()) for state in candidate.trainer.state())
    assert candidate.trainer.scaler.get_scale() == candidate.trainer.start.scale
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
    redraw = race._redraw

    def noted(*arguments: Any) -> Callable[[], object]:
        place = redraw(*arguments)

        def draw() -> object:
            held = place()
            made = watch.candidate
            with made.kept():
                losses.append(torch.as_tensor(made.step()).item())
            first.append(equal(parameters(made), list(made.trainer.start.values)))
            return held

        return draw

    monkeypatch.setattr(race, "_redraw", noted)
    run(learners.case(small_mlp, optimizer="adamw"))
    assert len(losses) >= 2 * smoke().budget.pilot_rounds
    assert len(set(losses)) == 1
    assert all(first)


def test_a_step_that_turns_wrong_while_it_is_timed_is_noticed(watch: Watch) -> None:
    def spoil() -> None:
        watch.candidate.trainer.optimizer.param_groups[0]["lr"] *= 2

    watch.before_timing = spoil
    result = run(learners.case(small_mlp))
    assert result.status == "wrong_result"
    assert result.findings.error_place.startswith("update of ")
    assert "against float64 in update of " in result.reason


def test_a_step_that_ignores_its_gradients_is_a_wrong_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the candidate alone, so eager's error says what is accepted."""
    build, built = modes.build, []

    def faulty(*arguments: Any) -> modes.Built:
        built.append(build(*arguments))
        if len(built) == 3:
            monkeypatch.setattr(built[-1].trainer, "update", lambda: None)
        return built[-1]

    monkeypatch.setattr(modes, "build", faulty)
    result = run(learners.case(small_mlp))
    assert result.status == "wrong_result"
    assert result.findings.error > 0.5
    assert result.findings.overflow_skipped is None


def test_a_model_that_draws_random_numbers_is_not_timed() -> None:
    result = run(learners.case(small_mlp))
    assert result.status == "ok"
    asked = learners.case(small_mlp)
    target = f"{random.__module__}:random"
    result = run(replace(asked, model=replace(asked.model, target=target)))
    assert result.status == "failed"
    assert "build it without (dropout=0)" in result.reason


def test_a_first_call_is_the_step_s_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the harness keeps to start again from takes time before it."""

    def slow(module: torch.nn.Module) -> Any:
        time.sleep(1.0)
        return trainer.start_of(module)

    monkeypatch.setattr(entrant, "start_of", slow)
    asked = learners.case(small_mlp)
    first = [enter(subject(small_mlp), EAGER, asked, Cpu(), smoke()) for _ in range(2)]
    assert min(each.first_call_s for each in first) < 1.0


def test_passes_leave_the_candidate_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    scenes: list[passes.Scene] = []

    def watched(progress: Any, scene: passes.Scene, findings: Any) -> Any:
        scenes.append(scene)
        candidate = scene.candidate.built
        assert passes._again(scene, EAGER.mode).trainer.start is candidate.trainer.start
        before = everything(scene.candidate.built)
        for each in passes.PASSES:
            if each.asked(scene) and each.name != "ceilings":
                findings = each.look(scene, findings)
                assert equal(before, everything(scene.candidate.built)), each.name
        return findings

    monkeypatch.setattr(passes, "run", watched)
    plan = replace(smoke(), profile=True, memory=True, results_dir=str(tmp_path))
    asked = learners.case(normalised, HALF_AMP, optimizer="adamw")
    found = runner.run(silent, asked, plan).findings
    assert len(scenes) == 1
    assert found.kernels > 0
    assert found.flops > 0
    assert found.optimizer_state_bytes > 0
    assert found.overflow_skipped is True

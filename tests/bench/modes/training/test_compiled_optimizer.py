"""The optimizer's step is compiled for the case alone, and torch's records prove it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.case import runner
from modescope.bench.modes import compiled_optimizer
from modescope.bench.modes.trainer import trainer_of
from modescope.bench.records.cases import Case, Training, Variant
from modescope.bench.records.results import Findings
from modescope.bench.refusals import refusal
from tests.helpers import trained_models
from tests.helpers.made_up_records import CPU
from tests.helpers.probe_models import preset, silent, smoke, variant
from tests.helpers.programs import lines
from tests.helpers.programs import run as run_program
from tests.helpers.trained_models import small_mlp
from tests.helpers.watched_runs import Watch

COMPILED = Variant(replace(preset("compile"), grad="enabled"), "fp32")


def asked(mode: Variant | None = None, **options: Any) -> Case:
    made = trained_models.case(small_mlp, mode or variant(), compile_optimizer=True, **options)
    return replace(made, baseline=variant())


def run(work: Case) -> Findings:
    torch.compiler.reset()
    result = runner.run(silent, work, smoke())
    assert result.status == "ok", result.reason
    return result.findings


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "optimizer", "graphs"),
    [(None, "adamw", 1), (None, "sgd", 1), (COMPILED, "adamw", 2)],
    ids=["eager adamw", "eager sgd", "compiled"],
)
def test_it_is_in_effect_and_trains_as_the_reference(
    mode: Variant | None, optimizer: str, graphs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(monkeypatch)
    found = run(asked(mode, optimizer=optimizer))
    assert (found.checks.in_effect, found.checks.in_effect_note) == (True, None)
    assert (found.checks.graphs, found.checks.recompiles, found.checks.checked) == (
        graphs,
        0,
        "exact",
    )
    assert found.checks.error is not None
    assert found.checks.error < found.checks.error_limit
    assert found.rounds.baseline_latency_rounds_s
    assert found.checks.first_call_s > 5 * found.checks.baseline_first_call_s
    own, other = (trainer_of(each).optimizer for each in (watch.candidate, watch.baseline))
    assert "step" in vars(own)
    assert "step" not in vars(other)


@pytest.mark.full
def test_a_scaled_loss_is_stepped_by_it_too() -> None:
    half = variant("bf16", autocast=True)
    found = run(asked(half, optimizer="adamw", scaler=True))
    assert found.checks.in_effect is True


def test_an_optimizer_that_is_left_in_eager_is_not_in_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled_optimizer, "compile_step", lambda made: None)
    found = run(asked())
    assert found.checks.in_effect is False
    assert found.checks.in_effect_note == "torch.compile compiled nothing of the optimizer's step"


@pytest.mark.full
def test_the_optimizers_graph_does_not_stand_for_the_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "compile", _only_optimizers(torch.compile))
    found = run(asked(COMPILED))
    assert found.checks.in_effect is False
    assert found.checks.in_effect_note == "torch.compile compiled nothing"


def _only_optimizers(compile_it: Any) -> Any:
    def compiles(what: Any, **options: Any) -> Any:
        return what if isinstance(what, torch.nn.Module) else compile_it(what, **options)

    return compiles


def test_it_is_of_the_case_alone_and_part_of_its_id() -> None:
    plain, own = Training(), Training(compile_optimizer=True)
    assert own.of_baseline() == plain
    work = asked()
    assert work.compiles
    assert not replace(work, options=plain).compiles
    assert replace(work, options=plain).case_id != work.case_id


def test_a_step_that_is_captured_as_a_whole_is_refused() -> None:
    graph, on_gpu = variant(graph=True), replace(CPU, type="cuda", capability=(9, 0))
    work = replace(asked(graph), baseline=None, device="cuda")
    assert "train.capture=forward_backward" in str(refusal(work, on_gpu))
    parts = replace(work, options=Training(compile_optimizer=True, capture="forward_backward"))
    assert refusal(parts, on_gpu) is None
    assert refusal(asked(), CPU) is None


@pytest.mark.full
def test_a_program_compiles_the_step_of_its_optimizer() -> None:
    program = lines(variant(), Training("adamw", compile_optimizer=True))
    torch.compiler.reset()
    names = run_program(program)
    assert "step" in vars(names.optimizer)
    assert "compile" not in lines(variant(), Training("adamw"))

"""Tests of training that need a GPU: graphs of whole steps train as eager does."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modescope.bench.checking import training_check
from modescope.bench.devices.devices import Hardware
from modescope.bench.modes import backends, modes
from modescope.bench.modes.phases import TrainingPhase
from modescope.bench.modes.trainer import RECOMPUTING, trainer_of
from modescope.bench.passes import memory, passes
from modescope.bench.records.cases import Case, Mode, Variant
from modescope.bench.records.results import Findings
from tests.helpers.captured_training import (
    ASKED,
    LR,
    SAVED_BYTES,
    WEIGHTS_BYTES,
    WIDTH,
    built,
    in_graphs,
    restores_its_start,
    step,
    subject_of,
    training,
    trains_alike,
    two_layers,
    values,
)
from tests.helpers.child_runs import findings_in_child
from tests.helpers.findings import rounds_of
from tests.helpers.made_up_records import MODEL
from tests.helpers.probe_models import EAGER, PRESETS, case, preset, smoke, variant

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("fresh_compiler")]

FP16 = variant("fp16", autocast=True)
CAPTURES = ("step", "forward_backward")

# The same kernels in the same order; a library may still choose another for a graph's stream.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
CLOSE_IN_HALF = {"rtol": 1e-2, "atol": 1e-3}

SHAPE = '{"batch":64,"depth":2,"width":512}'


def in_training(name: str) -> Mode:
    """conf/mode/<name>.yaml as it is resolved for training."""
    mode = preset(name)
    return replace(mode, grad="enabled") if name not in ("no_grad", "inference_mode") else mode


TRAINING_MODES = [name for name in PRESETS if in_training(name).grad == "enabled"]


def tolerance(asked: Variant) -> dict[str, float]:
    return CLOSE if asked.dtype == "fp32" else CLOSE_IN_HALF


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize(("asked", "options"), ASKED)
def test_replays_train_as_eager(
    optimizer: str, asked: Variant, options: dict[str, Any], capture: str, device: Hardware
) -> None:
    how = training(optimizer, capture=capture, **options)
    one, other = (built(each, how, device) for each in (in_graphs(asked), asked))
    trains_alike(one, other, **tolerance(asked))


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("checkpoint", ["children", "model"])
@pytest.mark.parametrize("asked", [variant(), variant("bf16", autocast=True)])
def test_recomputed_activations_can_be_captured(
    asked: Variant, checkpoint: str, capture: str, device: Hardware
) -> None:
    how = training("sgd", capture=capture)

    def of() -> nn.Module:
        return RECOMPUTING[checkpoint](two_layers(), False)

    one, other = built(in_graphs(asked), how, device, of), built(asked, how, device)
    trains_alike(one, other, **tolerance(asked))


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize(("asked", "options"), ASKED)
def test_training_is_restored_to_its_start(
    optimizer: str, asked: Variant, options: dict[str, Any], capture: str, device: Hardware
) -> None:
    restores_its_start(
        built(in_graphs(asked), training(optimizer, capture=capture, **options), device)
    )


@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize("capture", CAPTURES)
def test_a_replay_skips_a_step_that_overflows(
    optimizer: str, capture: str, device: Hardware
) -> None:
    how = training(optimizer, implementation="fused", capture=capture)
    made = built(in_graphs(FP16), how, device)
    before, scale = values(made), trainer_of(made).scaler.get_scale()
    assert training_check.skips_overflow(made)
    with torch.no_grad():
        made.subject.inputs.args[0][0, 0] = torch.inf
    made.step()
    *after, lowered = values(made)
    assert all(map(torch.equal, after, before))
    assert lowered == scale / 2


def test_two_captured_steps_do_not_disturb_each_other(device: Hardware) -> None:
    subject = subject_of(two_layers(), device)
    how, asked = training("adamw"), variant()
    one, other = (
        modes.build(subject.cast(torch.float32), each, True, device, TrainingPhase(how))
        for each in (in_graphs(asked), asked)
    )
    for made in (one, other):
        trainer_of(made).restore()
    assert all(map(torch.equal, trainer_of(one).trained, trainer_of(other).trained))
    before = values(other)
    for seed in (1, 2, 3):
        step(one, seed)
    assert all(map(torch.equal, values(other), before))
    losses = [float(step(other, seed)) for seed in (1, 2)]
    step(one, seed=4)
    trainer_of(other).restore()
    step(one, seed=5)
    assert [float(step(other, seed)) for seed in (1, 2)] == losses


@pytest.mark.usefixtures("no_pools")
@pytest.mark.parametrize("optimizer", LR)
@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_memory_of_a_step(optimizer: str, graph: bool, device: Hardware) -> None:
    asked = in_graphs(variant()) if graph else variant()
    made = built(asked, training(optimizer), device)
    step(made, seed=1)
    found = memory.read(made, asked, device.allocator)
    assert (found.weights_bytes, found.gradient_bytes) == (WEIGHTS_BYTES, WEIGHTS_BYTES)
    moments = 2 * WEIGHTS_BYTES + 4 * 4 if optimizer == "adamw" else 0  # and a count for each
    assert found.optimizer_state_bytes == moments
    assert found.saved_activation_bytes == SAVED_BYTES
    assert (found.autocast_copy_bytes, found.step_left_bytes) == (0, 0)
    assert (found.allocations_per_call == 0) == graph
    assert found.graph_pool_live_bytes >= (WEIGHTS_BYTES if graph else 0), "gradients are there"
    assert (found.graph_pool_bytes > 0) == graph
    assert {value.device.type for value in trainer_of(made).start.values} == {"cpu"}


def test_saved_activations_inside_graphs_are_unknown(device: Hardware) -> None:
    asked = in_graphs(variant("bf16", autocast=True))
    made = built(asked, training("sgd", capture="forward_backward"), device)
    found = memory.read(made, asked, device.allocator)
    assert (found.saved_activation_bytes, found.autocast_copy_bytes) == (None, None)
    assert found.memory_note
    assert found.graph_pool_bytes > 0
    assert found.gradient_bytes == WEIGHTS_BYTES


def test_parts_of_a_queued_step_add_up(device: Hardware) -> None:
    """Synchronised, each part takes at least its device time."""
    deep = subject_of(nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(20))), device)
    made = modes.build(deep, variant(), True, device, TrainingPhase(training("sgd")))
    for _ in range(10):
        made.step()
    budget = replace(smoke().budget, block_s=2e-3, clock_rounds=24, timed_max_s=5.0)
    found = passes.read_step_parts(made, device, budget, 0, 3e-3)
    latency_s = statistics.median(found.parts_latency_rounds_s)  # in the same rounds
    of = [found.forward_rounds_s, found.backward_rounds_s, found.optimizer_rounds_s]
    assert [len(blocks) for blocks in of] == [budget.clock_rounds] * 3
    assert found.scaler_rounds_s is None
    assert sum(statistics.median(blocks) for blocks in of) > 0.9 * latency_s
    assert all(statistics.median(blocks) < latency_s for blocks in of)


def of_training(name: str, optimizer: str, **options: Any) -> tuple[Case, Mode]:
    mode = in_training(name)
    asked = Variant(mode, "bf16" if mode.autocast else "fp32")
    found = case(MODEL, asked, Variant(EAGER, "fp32"), device="cuda")
    how = replace(training(optimizer, **options), capturable=None, lr=1e-3)
    return replace(found, shape_json=SHAPE, options=how), mode


def measured(asked: Case, folder: Path, profile: bool = False) -> Findings:
    """In a process of its own with empty caches, as run.py measures it."""
    plan = replace(smoke(), profile=profile, memory=True, results_dir=str(folder / "results"))
    return findings_in_child(asked, plan, folder)


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        *((name, "adamw") for name in TRAINING_MODES),
        # Only a captured step contains the optimizer: elsewhere another one compiles nothing new.
        *((name, "sgd") for name in TRAINING_MODES if in_training(name).graph),
    ],
)
def test_every_training_mode_passes_the_check_and_takes_effect(
    name: str, optimizer: str, tmp_path: Path
) -> None:
    asked, mode = of_training(name, optimizer)
    check(measured(asked, tmp_path), mode)


def test_graphs_of_forward_and_backward_pass_the_check_and_take_effect(tmp_path: Path) -> None:
    asked, mode = of_training("cuda-graph", "adamw", capture="forward_backward")
    found = measured(asked, tmp_path, profile=True)
    check(found, mode)
    assert found.checks.graph_launches == 2
    assert found.memory.saved_activation_bytes is None
    plain, _ = of_training("eager", "adamw")
    assert found.work.flops == measured(plain, tmp_path, profile=True).work.flops > 0


def check(found: Findings, mode: Mode) -> None:
    assert found.checks.seen_grad == "enabled"
    assert found.checks.seen_autocast == ("bfloat16" if mode.autocast else "none")
    assert found.checks.in_effect, found.checks.in_effect_note
    assert ((found.checks.graph_launches or 0) >= 1) == backends.replays_graphs(mode)
    assert found.checks.recompiles == 0
    assert found.checks.error <= found.checks.error_limit
    assert len(rounds_of(found).latency_rounds_s) == len(rounds_of(found).baseline_latency_rounds_s)
    assert found.memory.gradient_bytes == found.memory.weights_bytes
    assert found.loss_scaling.loss_scale is None


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("amp", {}),
        ("amp", {"implementation": "fused"}),
        ("amp-compile", {}),
        ("cuda-graph", {"implementation": "fused"}),
        ("cuda-graph", {"capture": "forward_backward"}),
    ],
)
def test_a_scaled_loss_passes_the_check_in_every_mode(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    asked, mode = of_training(name, "adamw", **options)
    half = replace(asked, variant=Variant(replace(mode, autocast=True), "fp16"))
    found = measured(half, tmp_path)
    assert found.loss_scaling.overflow_skipped
    assert 0 < found.loss_scaling.loss_scale <= 2**16
    assert found.checks.in_effect, found.checks.in_effect_note
    assert found.checks.error <= found.checks.error_limit
    asks = options.get("implementation") != "fused"
    assert (
        found.clocks.device_rounds_s is None
    ) == asks  # a step that waits inside cannot be queued

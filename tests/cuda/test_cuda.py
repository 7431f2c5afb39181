"""Tests that need a GPU: graph launches, replays that follow their inputs, clocks that agree."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from modescope.bench.case import dispatch, runner
from modescope.bench.devices import nvml
from modescope.bench.devices.devices import Hardware
from modescope.bench.model.building import build
from modescope.bench.modes import backends, modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.records.cases import Case, Mode, Model, Variant
from modescope.bench.records.results import Findings, Result
from modescope.bench.stats.diagnostics import CLOCK_FALL
from modescope.bench.sweep import host, isolation
from modescope.bench.timing import timers
from tests.helpers.child_runs import findings_in_child
from tests.helpers.findings import rounds_of
from tests.helpers.probe_models import (
    EAGER,
    PRESETS,
    case,
    counts,
    endless_memory,
    linear,
    model,
    preset,
    silent,
    smoke,
    variant,
)
from tests.helpers.processes import alive, marker, soon

pytestmark = pytest.mark.cuda

WARM_UP = 4  # reduce-overhead: one call warms up, one records, the next replay
SMALL_MLP = Model("mlp", "modescope.models.mlp:build")


@pytest.fixture(autouse=True)
def _compiled_anew(restored_settings: None) -> Iterator[None]:
    yield
    torch.compiler.reset()


def test_device_facts_match_the_driver(device: Hardware) -> None:
    facts, found = device.facts(), host.read(silent, "cuda").environment
    capability = torch.cuda.get_device_capability(0)
    assert facts.type == "cuda"
    assert facts.name == torch.cuda.get_device_name(0)
    assert facts.capability == capability
    assert facts.memory_bytes == pytest.approx(torch.cuda.mem_get_info(0)[1], rel=0.02)
    assert found.driver_version
    assert found.compute_capability == ".".join(map(str, capability))
    assert found.cuda_version == torch.version.cuda
    assert found.power_limit_w is None or 10 < found.power_limit_w < 3000


def clocks_up(device: Hardware) -> None:
    """Raises the clock of an idle GPU, as `hold` uses the last clock rate that was read."""
    device.hold(0.3)
    device.clock_hz()


@pytest.mark.parametrize("seconds", [1e-3, 1e-2, 1e-1])
def test_hold_blocks_the_stream_for_about_the_requested_time(
    seconds: float, device: Hardware
) -> None:
    clocks_up(device)
    begin = device.mark()
    device.hold(seconds)
    end = device.mark()
    device.synchronize()
    assert end.seconds_since(begin) == pytest.approx(seconds, rel=0.2)


def test_a_mark_is_reached_once_earlier_work_is_done(device: Hardware) -> None:
    clocks_up(device)
    first = device.mark()
    device.hold(0.2)
    last = device.mark()
    assert not last.reached()
    device.synchronize()
    assert first.reached()
    assert last.reached()
    assert first.seconds_since(first) == 0.0
    assert last.seconds_since(first) > 0.1


def test_repeated_clock_rate_readings_agree_within_the_flags_threshold(device: Hardware) -> None:
    clocks_up(device)
    readings_hz = [device.clock_hz() for _ in range(5)]
    assert min(readings_hz) > 2e8
    assert max(readings_hz) < 4e9
    assert max(readings_hz) - min(readings_hz) < CLOCK_FALL / 2 * max(readings_hz)


def test_a_synchronise_costs_little(device: Hardware) -> None:
    assert 0 < timers.synchronize_cost(device) < 1e-3


def test_nvml_reports_this_gpu(device: Hardware) -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is optional")
    device.synchronize()  # this process uses the GPU
    slowdowns = device.slowdowns()
    assert slowdowns is not None
    assert set(slowdowns) <= set(nvml.CLOCK_REASONS.values())
    others = device.other_processes()  # None in a container with process ids of its own
    assert others is None or others >= 0


@pytest.mark.parametrize("name", PRESETS)
def test_every_mode_is_in_effect(name: str, tmp_path: Path) -> None:
    """In a process of its own with empty caches, as run.py measures it."""
    mode = preset(name)
    dtype = "bf16" if mode.autocast else "fp32"
    asked = replace(
        case(SMALL_MLP, Variant(mode, dtype), device="cuda"),
        shape_json='{"batch":64,"depth":4,"width":512}',  # blocks that repeat
    )
    found = findings_in_child(asked, smoke(), tmp_path)
    check_launches(found, mode)
    assert found.checks.seen_grad == mode.grad
    assert found.checks.seen_autocast == ("bfloat16" if mode.autocast else "none")
    assert found.checks.seen_weight_dtype == "float32"
    assert found.checks.in_effect, found.checks.in_effect_note
    assert found.checks.recompiles == 0
    assert len(rounds_of(found).latency_rounds_s) == len(rounds_of(found).baseline_latency_rounds_s)


def check_launches(found: Findings, mode: Mode) -> None:
    if backends.replays_graphs(mode):
        assert found.checks.graph_launches >= 1
    else:
        assert not found.checks.graph_launches  # None: the mode launches no graph
    assert (found.checks.graphs > 0) == (mode.compile != "none")
    if backends.autotunes(mode):
        assert found.checks.autotuned > 0


REPLAYING = [
    pytest.param({"graph": True}, id="cuda-graph"),
    pytest.param({"compile": "default", "graph": True}, id="compile-cuda-graph"),
    pytest.param({"compile": "reduce-overhead"}, id="reduce-overhead"),
]


@pytest.mark.parametrize("axes", REPLAYING)
@pytest.mark.parametrize("grad", ["no_grad", "inference_mode"])
@pytest.mark.parametrize(("autocast", "dtype"), [(False, "fp32"), (True, "bf16")])
def test_a_replay_follows_inputs_and_weights(
    axes: dict[str, Any], grad: str, autocast: bool, dtype: str, device: Hardware
) -> None:
    """Under autocast a cached cast of the weights would go stale."""
    asked = variant(dtype, grad=grad, autocast=autocast, **axes)
    subject = build(model(linear), {}).to(device.torch_device).cast(modes.weight_dtype(asked))
    made = modes.build(subject, asked, True, device, ONE_CALL)
    module, inputs = made.subject.module, made.subject.inputs

    def output() -> Tensor:
        result: Any = made.step()
        copy: Tensor = result.detach().clone()
        return copy

    for _ in range(WARM_UP):
        before = output()
    with torch.no_grad():
        module.get_parameter("bias").zero_()
    without_bias = output()
    assert not torch.equal(without_bias, before)
    inputs.assign(inputs.map(lambda tensor: 2 * tensor))
    torch.testing.assert_close(output(), 2 * without_bias)
    with torch.no_grad():
        module.get_parameter("weight").mul_(4)
    torch.testing.assert_close(output(), 8 * without_bias)


def test_checking_leaves_a_captured_state_unchanged(device: Hardware) -> None:
    """Warm-up calls and replays change a buffer, whose address the capture holds."""
    asked = case(model(counts), variant(grad="no_grad", graph=True), device="cuda")
    result = runner.run(silent, asked, smoke())
    assert (result.status, result.reason) == ("ok", None)


UNHURRIED = replace(
    smoke().budget,
    warmup_min_s=0.5,
    warmup_max_s=3.0,
    block_s=2e-3,
    pilot_rounds=12,
    min_rounds=12,
    max_rounds=12,
    timed_max_s=3.0,
    clock_rounds=24,
)

DEVICE_BOUND = '{"batch":4096,"depth":4,"width":4096}'
HOST_BOUND = '{"batch":1,"depth":4,"width":64}'

GRAPHLESS = [
    pytest.param({}, id="eager"),
    pytest.param({"compile": "default"}, id="compile"),
]


def found_by_a_run(axes: dict[str, Any], shape_json: str) -> Findings:
    """The findings of a run of the MLP, long enough for comparable medians."""
    asked = case(SMALL_MLP, variant("bf16", grad="inference_mode", **axes), None, device="cuda")
    plan = replace(smoke(), budget=UNHURRIED)
    result = runner.run(silent, replace(asked, shape_json=shape_json), plan)
    assert (result.status, result.reason) == ("ok", None)
    return result.findings


@pytest.mark.parametrize("axes", [*GRAPHLESS, *REPLAYING])
def test_dispatch_is_at_most_the_host_time(axes: dict[str, Any]) -> None:
    """An empty batch goes through the same layers and launches less."""
    found = found_by_a_run(axes, HOST_BOUND)
    if axes not in ({}, {"compile": "default"}):
        assert found.clocks.dispatch_rounds_s is None
        assert found.clocks.dispatch_note == "the captured graph of an empty batch is empty"
        return
    assert found.clocks.dispatch_note == (dispatch.NO_LAUNCHES if axes else None)
    dispatch_s = statistics.median(found.clocks.dispatch_rounds_s)
    assert 0 < dispatch_s < 1.05 * statistics.median(found.clocks.host_rounds_s)


@pytest.mark.parametrize(
    ("axes", "shape_json"),
    [
        pytest.param({}, DEVICE_BOUND, id="eager, device-bound"),
        pytest.param({"graph": True}, DEVICE_BOUND, id="cuda-graph, device-bound"),
        pytest.param({}, HOST_BOUND, id="eager, host-bound"),
    ],
)
def test_the_clocks_of_a_run_agree(axes: dict[str, Any], shape_json: str) -> None:
    """pipelined = max(host, device) <= latency <= host + device + synchronise, within 5 %.

    Or 5 us: after waiting, the caches of the host are colder.
    """
    found = found_by_a_run(axes, shape_json)
    assert found.clocks.device_note is None
    assert 1 <= found.clocks.device_calls <= found.clocks.device_calls_wanted
    assert len(found.device_state.device_clock_hz) == 2  # before warm-up and after timing
    latency_s, host_s, device_s, pipelined_s = (
        statistics.median(rounds)
        for rounds in (
            found.clocks.clocks_latency_rounds_s,
            found.clocks.host_rounds_s,
            found.clocks.device_rounds_s,
            found.clocks.pipelined_rounds_s,
        )
    )
    assert (device_s > host_s) == (shape_json == DEVICE_BOUND)
    assert pipelined_s == pytest.approx(max(host_s, device_s), rel=0.05, abs=5e-6)
    assert latency_s >= 0.95 * max(host_s, device_s)
    assert latency_s <= 1.05 * (host_s + device_s + found.calibration.synchronize_s) + 5e-6


def test_a_step_that_waits_for_the_device_has_no_device_time(device: Hardware) -> None:
    x = torch.ones(8, device=device.torch_device)
    timing = timers.device_time(lambda: x.sum().item(), device, 3)
    assert timing.samples_s == ()
    assert "the step waits for the device itself" in timing.reason


def test_device_memory_exhaustion_is_status_oom() -> None:
    asked = case(model(endless_memory), variant(grad="no_grad"), device="cuda")
    result = runner.run(silent, asked, smoke())
    assert result.status == "oom"
    assert "out of memory" in result.reason


def test_tf32_is_in_effect_and_differs_from_fp32(device: Hardware) -> None:
    if device.facts().capability < (8, 0):
        pytest.skip("TF32 needs compute capability 8.0")
    found = {}
    for dtype in ("fp32", "tf32"):
        asked = replace(
            case(SMALL_MLP, variant(dtype), Variant(EAGER, dtype), device="cuda"),
            shape_json='{"batch":1024,"depth":2,"width":1024}',
        )
        result = runner.run(silent, asked, smoke())
        assert result.status == "ok"
        found[dtype] = result.findings
    assert found["fp32"].checks.matmul_precision == "highest"
    assert found["tf32"].checks.matmul_precision == "high"
    assert found["tf32"].checks.error > 10 * found["fp32"].checks.error


@pytest.mark.parametrize("mode", ["eager", "compile", "reduce-overhead"])
def test_a_child_uses_the_gpu_and_leaves_no_process(mode: str, tmp_path: Path) -> None:
    sign = marker()
    shape_json = '{"batch":64,"depth":4,"width":256}'
    asked = Case(SMALL_MLP, shape_json, Variant(preset(mode), "fp32"), None, "cuda", threads=1)
    variables = {
        "MODESCOPE_TEST": sign,
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
    }
    run = "modescope.bench.case.runner:run"
    outcome = isolation.call(
        isolation.Task(run, Result), asked, smoke(), timeout_s=120, variables=variables
    )
    assert outcome.value is not None, outcome
    assert outcome.value.status == "ok", outcome
    assert soon(lambda: not alive(sign), 5.0)

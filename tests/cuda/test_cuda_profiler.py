"""Profiles on a GPU: kernels, launches and replays as the CUDA runtime reports them."""

from __future__ import annotations

import pytest
import torch

from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.evidence import compilation
from modescope.bench.model.building import build
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.passes.profiler import profile
from modescope.bench.passes.profiler.capture import Profile, capture
from modescope.bench.records.cases import Model, Variant
from modescope.bench.timing import timers
from tests.helpers.probe_models import preset, variant

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("fresh_compiler")]

WARM_UP = 4  # reduce-overhead: one call warms up, one records, the next replay
LARGE = {"batch": 16384, "width": 4096}
SMALL = {"batch": 4, "width": 16}


def warm(asked: Variant, device: Hardware, **shape: int) -> Step:
    return warm_model("pointwise", asked, device, shape)


def warm_model(name: str, asked: Variant, device: Hardware, shape: dict[str, int]) -> Step:
    torch.manual_seed(0)
    subject = build(Model(name, f"modescope.models.{name}:build"), shape).to(device.torch_device)
    step = modes.build(subject, asked, True, device, ONE_CALL).step
    for _ in range(WARM_UP):
        step()
    device.synchronize()
    return step


def profiled(step: Step, device: Hardware) -> Profile:
    expected_s = timers.latency(step, device, 21).median_s
    return capture(step, device, None, expected_s)


def test_the_compiler_s_replay_copies_its_input_first(device: Hardware) -> None:
    asked = Variant(preset("reduce-overhead"), "fp32")
    step = profiled(warm(asked, device, ops=16, **SMALL), device).typical
    assert step.graph_launches == 1
    assert step.kernels + step.copies == 2


def test_copies_are_counted_apart_from_kernels(device: Hardware) -> None:
    host, there = torch.rand(1024), torch.empty(1024, device=device.torch_device)

    def step() -> None:
        there.copy_(host)
        there.sin_()

    step()
    seen = profiled(step, device).typical
    assert (seen.copies, seen.fills, seen.kernels) == (1, 0, 1)


def test_the_bias_and_the_gelu_of_an_mlp_are_one_kernel(device: Hardware) -> None:
    """Inductor takes the bias out of addmm where something pointwise follows (its post-grad pass
    that unfuses bias additions), and names a kernel after what it was made of. Where cuBLAS had
    added it by a kernel of its own, there is one less.
    """
    shape = {"batch": 256, "width": 512, "depth": 2}
    step = warm_model("mlp", variant(grad="inference_mode"), device, shape)
    eager = profiled(step, device).typical
    with compilation.watch_code() as watch:
        asked = variant(grad="inference_mode", compile="default")
        step = warm_model("mlp", asked, device, shape)
    compiled = profiled(step, device).typical
    assert watch.columns.generated_kernels >= 1
    generated = [heavy for heavy in compiled.heaviest_kernels if "triton" in heavy.name]
    assert sum(heavy.count for heavy in generated) == watch.columns.generated_kernels
    (fused,) = [heavy for heavy in generated if "gelu" in heavy.name]
    assert fused.count == 1
    assert "addmm" in fused.name or compiled.kernels < eager.kernels


def test_busy_time_agrees_with_the_device_clock(device: Hardware) -> None:
    """Kernels of some 100 us each, so gaps between them are negligible."""
    step = warm(variant(grad="inference_mode"), device, ops=16, **LARGE)
    device_s = timers.device_time(step, device, 20).median_s
    seen = profiled(step, device)
    assert profile.flags(seen, device_s) == ()
    assert seen.typical.busy_s == pytest.approx(device_s, rel=0.1)
    assert seen.typical.busy_s <= seen.typical.span_s

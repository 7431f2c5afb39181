"""Other harnesses on a GPU: their device times, and planted changes."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median

import pytest
import torch

from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.peers import harnesses, ours, processes
from modescope.bench.tools.peers.harness import Harness
from modescope.bench.tools.peers.harnesses import HARNESSES
from modescope.bench.tools.peers.rules import SLOWER
from modescope.bench.tools.peers.sides import pair
from modescope.bench.tools.testbed.sides import Recipe, Side, ready, side

pytestmark = pytest.mark.cuda

RECIPE = Recipe("pointwise", "cuda", 1)
LONGER = 9.0  # ten times as long, by a spin: launching and waiting are negligible
ON_DEVICE = [harnesses.DO_BENCH, harnesses.DO_BENCH_CUDAGRAPH]


@pytest.fixture(scope="module")
def device() -> Hardware:
    return ready("cuda")


@pytest.fixture
def long(device: Hardware) -> Side:
    """Almost nothing but a spin on the device."""
    return side(replace(RECIPE, longer=LONGER), device)


def test_workloads_are_built_on_the_device(device: Hardware) -> None:
    (x,) = RECIPE.build(device).tensors
    assert x.device == torch.device("cuda", 0)


@pytest.mark.parametrize("harness", ON_DEVICE, ids=lambda each: each.name)
def test_every_harness_reads_the_device_time_of_a_long_step(
    harness: Harness, device: Hardware, long: Side
) -> None:
    if harness.missing(device):
        pytest.skip(str(harness.missing(device)))
    theirs = harness.figure(harness.measure(long, 0.2))
    assert theirs == pytest.approx(median(ours.device(long)), rel=0.05)


def test_all_harnesses_that_wait_agree_on_a_long_step(device: Hardware, long: Side) -> None:
    plain = side(replace(RECIPE, longer=0.0), device)
    theirs = harnesses.TORCH.figure(harnesses.TORCH.measure(long, 0.3))
    assert theirs == pytest.approx(median(ours.pipelined(long, 0.3)), rel=0.05)
    assert theirs == pytest.approx((1 + LONGER) * plain.call_s, rel=0.2)


def test_fresh_processes_measure_on_the_device(long: Side) -> None:
    samples = processes.fresh_processes(long, 1.0)
    assert len(samples) == processes.PROCESSES * processes.VALUES
    assert min(samples) > 0


@pytest.mark.parametrize("harness", [harnesses.MODESCOPE, *ON_DEVICE], ids=lambda each: each.name)
def test_a_planted_change_is_detected(harness: Harness, device: Hardware) -> None:
    if harness.missing(device):
        pytest.skip(str(harness.missing(device)))
    shuffle = random.Random(0)
    case, baseline = pair(RECIPE, 0.1, device, shuffle)
    samples = harness.compare(case, baseline, 0.5, shuffle)
    assert [each.decide(*samples) for each in harness.criteria] == [SLOWER] * len(harness.criteria)


def test_on_a_gpu_only_missing_packages_exclude_a_harness(device: Hardware) -> None:
    reasons = {each.missing(device) for each in HARNESSES}
    assert all(reason is None or "not installed" in reason for reason in reasons)

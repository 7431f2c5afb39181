"""Other harnesses on a GPU: what only they can measure there, and what a planted change is."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median

import pytest
import torch

from bench.devices import Hardware
from bench.peers import harnesses, ours, processes
from bench.peers.harness import Harness
from bench.peers.harnesses import HARNESSES
from bench.peers.rules import SLOWER
from bench.peers.sides import pair
from bench.testbed.sides import Recipe, Side, ready, side

pytestmark = pytest.mark.cuda

RECIPE = Recipe("pointwise", "cuda", 1)
LONGER = 9.0  # ten times as long, by a spin: launching and waiting hardly count
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
def test_device_time_of_a_long_step(harness: Harness, device: Hardware, long: Side) -> None:
    if harness.missing(device):
        pytest.skip(str(harness.missing(device)))
    theirs = harness.figure(harness.measure(long, 0.2))
    assert theirs == pytest.approx(median(ours.device(long)), rel=0.05)


def test_all_harnesses_that_wait_agree_on_a_long_step(device: Hardware, long: Side) -> None:
    plain = side(replace(RECIPE, longer=0.0), device)
    theirs = harnesses.TORCH.figure(harnesses.TORCH.measure(long, 0.3))
    assert theirs == pytest.approx(median(ours.pipelined(long, 0.3)), rel=0.05)
    assert theirs == pytest.approx((1 + LONGER) * plain.call_s, rel=0.2)


def test_fresh_processes_find_the_device_anew(long: Side) -> None:
    samples = processes.fresh_processes(long, 1.0)
    assert len(samples) == processes.PROCESSES * processes.VALUES
    assert min(samples) > 0


@pytest.mark.parametrize("harness", [harnesses.MODESCOPE, *ON_DEVICE], ids=lambda each: each.name)
def test_a_planted_change_is_seen(harness: Harness, device: Hardware) -> None:
    if harness.missing(device):
        pytest.skip(str(harness.missing(device)))
    shuffle = random.Random(0)
    case, baseline = pair(RECIPE, 0.1, device, shuffle)
    samples = harness.compare(case, baseline, 0.5, shuffle)
    assert [each.decide(*samples) for each in harness.criteria] == [SLOWER] * len(harness.criteria)


def test_nothing_is_missing_but_packages(device: Hardware) -> None:
    reasons = {each.missing(device) for each in HARNESSES}
    assert all(reason is None or "not installed" in reason for reason in reasons)

"""The self-check on a GPU: what it can only decide there holds there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from bench.devices import Hardware
from bench.peers.harnesses import DO_BENCH
from bench.peers.sides import Recipe, ready
from bench.selfcheck import exact
from bench.selfcheck.outcomes import Check, Outcome, Setting, most
from bench.selfcheck.races import FALSE_ALARMS, FALSE_VERDICTS
from bench.selfcheck.trials import adaptive, race

pytestmark = pytest.mark.cuda

PAIRS = 20


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As the program does."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def device() -> Hardware:
    return ready("cuda")


def decided(check: Check, device: Hardware) -> list[Outcome]:
    """What a check finds; none of it may be left undecided, and all of it holds."""
    found = list(check(Setting(device, thorough=False)))
    assert [outcome for outcome in found if outcome.holds is not True] == []
    return found


def test_readings_of_planted_device_work_lie_on_a_line(device: Hardware) -> None:
    (line,) = decided(exact.planted_spins, device)
    assert line.trials == len(exact.SPINS_S)


def test_host_and_device_are_told_apart(device: Hardware) -> None:
    conditions = [outcome.condition for outcome in decided(exact.separation, device)]
    assert conditions == ["simulated clock"] * 4 + ["GPU"] * 4


def test_device_time_agrees_with_triton(device: Hardware) -> None:
    if DO_BENCH.missing(device):
        pytest.skip(DO_BENCH.missing(device))
    checks = [outcome.check.rpartition(".")[2] for outcome in decided(exact.triton_bench, device)]
    assert checks == ["do_bench", "do_bench_cudagraph"]


def test_equal_steps_are_found_equal(device: Hardware) -> None:
    recipe = Recipe("pointwise", "cuda", 1)
    found = [
        race(recipe.build(device), recipe.build(device), device, adaptive(2.0), seed)
        for seed in range(PAIRS)
    ]
    assert sum(trial.sign != 0 for trial in found) <= most(PAIRS, FALSE_ALARMS)
    assert sum(trial.verdict_sign != 0 for trial in found) <= most(PAIRS, FALSE_VERDICTS)

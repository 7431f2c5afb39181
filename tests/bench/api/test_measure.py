"""`modescope.measure`: on simulated time, and for real."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import modescope
from modescope.bench.api import measure as api
from modescope.bench.api.measure import Measured
from modescope.bench.devices.devices import Step
from modescope.bench.evidence import compiler_counts
from tests.helpers.simulated import SimulatedDevice, decaying, normal_noise, step


def simulated(queues: bool = False) -> Any:
    return SimulatedDevice(queues=queues, read_cost_s=2e-8)


def race(
    baseline: Callable[[SimulatedDevice], Step],
    candidate: Callable[[SimulatedDevice], Step],
    device: Any = None,
    seconds: float = 2.0,
) -> Measured:
    device = device or simulated()
    return api.race(baseline(device), candidate(device), device, seconds, half_width=0.005)


def takes(seconds: float, sigma: float = 0.0) -> Callable[[SimulatedDevice], Step]:
    """Half of the time on the host, half on the device."""

    def build(device: SimulatedDevice) -> Step:
        scale = normal_noise(1, sigma) if sigma else lambda: 1.0
        return step(device, (seconds / 2, seconds / 2), scale=scale)

    return build


@pytest.mark.parametrize("queues", [False, True])
def test_the_speedup_is_the_baselines_time_over_the_candidates(queues: bool) -> None:
    found = race(takes(5e-5), takes(4e-5), simulated(queues))
    assert found.speedup == pytest.approx(1.25, rel=1e-3)
    assert (found.latency_s, found.baseline_latency_s) == pytest.approx((4e-5, 5e-5), rel=2e-3)
    assert (found.verdict, found.device) == ("faster", "cuda" if queues else "cpu")
    assert race(takes(4e-5), takes(5e-5), simulated(queues)).verdict == "slower"


def test_rounds_end_when_the_speedup_is_known_well_enough() -> None:
    exact, noisy = race(takes(5e-5), takes(5e-5)), race(takes(1e-3), takes(1e-3, sigma=0.1))
    assert len(exact.ratios) == api.LEAST_ROUNDS
    assert len(noisy.ratios) > 2 * api.LEAST_ROUNDS
    assert exact.verdict == "equivalent"
    assert {*exact.flags} <= {"contended"}  # by other programs on this machine
    assert noisy.speedup_ci_low < 1 < noisy.speedup_ci_high
    assert noisy.mde > exact.mde
    assert "without an interval" in str(replace(noisy, speedup_ci_low=None, mde=None))


@pytest.mark.parametrize(
    ("low", "high", "factor"),
    [
        (1.29, 13.42, "at least 1.29×"),
        (0.2, 0.8, "at most 0.80×"),
        (0.8, 1.6, "between 0.80× and 1.60×"),
        (1.2, 1.3, "1.250× [1.200, 1.300]"),
    ],
)
def test_of_a_wide_interval_only_the_ends_are_told(low: float, high: float, factor: str) -> None:
    found = race(takes(1e-3), takes(1e-3, sigma=0.1))
    wide = replace(found, speedup=1.25, speedup_ci_low=low, speedup_ci_high=high)
    assert f" is {factor} as fast as " in str(wide)
    assert ("detects" in str(wide)) == (factor[0].isdigit())


@pytest.mark.parametrize(("call_s", "change"), [(1e-7, 0.1), (3e-6, 0.02), (5e-5, 0.02)])
def test_a_short_function_is_timed_in_loops_that_the_clock_resolves(
    call_s: float, change: float
) -> None:
    """Reading the simulated clock takes 20 ns, which would hide a fifth of the first change."""
    found = race(takes(call_s), takes(call_s * (1 + change)))
    assert 1 / found.speedup - 1 == pytest.approx(change, rel=0.01)
    assert found.baseline_latency_s == pytest.approx(call_s, rel=0.002)


@pytest.mark.parametrize(
    ("baseline_s", "candidate_s", "seconds", "verdict", "queues"),
    [
        (0.5, 0.45, 2.0, "faster", False),
        (0.5, 0.45, 2.0, "faster", True),
        (0.5, 1e-3, 2.0, "faster", False),
        (1e-3, 3.0, 10.0, "slower", True),
        (0.03, 0.05, 2.0, "slower", False),
        (0.004, 0.004, 0.1, "equivalent", True),
        (1e-6, 0.05, 10.0, "slower", False),  # both in loops of twenty
    ],
)
def test_a_limit_that_cannot_hold_is_refused_with_one_that_does(
    baseline_s: float, candidate_s: float, seconds: float, verdict: str, queues: bool
) -> None:
    both, device = (takes(baseline_s), takes(candidate_s)), simulated(queues)
    with pytest.raises(modescope.UsageError) as error:
        race(*both, device, seconds)
    said, both_s = str(error.value), baseline_s + candidate_s
    assert "\n" not in said
    assert said.startswith(f"seconds={seconds:g}: ")
    assert ("loops of 20 calls" in said) == (baseline_s == 1e-6)
    assert device.now_s == pytest.approx(2 * both_s, rel=0.1)  # spent to find out
    enough_s = float(said.rpartition("seconds=")[2])
    device = simulated(queues)
    assert race(*both, device, enough_s).verdict == verdict
    spent_s = device.now_s - 2 * both_s
    assert spent_s < enough_s * 1.001
    assert spent_s > 0.6 * (enough_s - 1)  # which was rounded up to a second


def test_functions_whose_calls_vary_are_refused_once() -> None:
    """The fastest call decides, and the slowest says how many seconds do."""
    scales = iter([0.5, 0.6, 0.5, 0.6])

    def varies(device: SimulatedDevice) -> Step:
        return step(device, (1.0, 0.0), scale=lambda: next(scales, 0.55))

    with pytest.raises(modescope.UsageError) as error:
        race(varies, varies)
    seconds = float(str(error.value).rpartition("seconds=")[2])
    assert race(varies, varies, seconds=seconds).verdict == "equivalent"


def test_a_first_call_that_loads_or_compiles_refuses_nothing() -> None:
    """The later calls count, of which one may record a graph."""

    def loads(device: SimulatedDevice) -> Step:
        load_s = iter([0.9, 0.6])
        return step(device, (1e-3, 0.0), scale=lambda: next(load_s, 1e-3) * 1e3)

    device = simulated()
    baseline, candidate = loads(device), loads(device)
    baseline()
    candidate()
    assert api.race(baseline, candidate, device, 2.0, 0.005).verdict == "equivalent"


def test_functions_that_do_not_settle_are_flagged() -> None:
    def settles(device: SimulatedDevice) -> Step:
        return step(device, (1e-4, 0.0), scale=decaying(calls=2000, factor=9.0))

    assert "no_steady_state" in race(settles, takes(1e-4)).flags


def test_a_compilation_in_the_rounds_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_counts, "count_compilations", lambda: lambda: 3)
    monkeypatch.setattr(compiler_counts, "recompile_reasons", lambda: lambda: ["size changed"])
    with pytest.raises(RuntimeError, match=r"compiled 3 more time\(s\).*: size changed"):
        race(takes(5e-5), takes(5e-5))


def torch_settings() -> tuple[object, ...]:
    precision = torch.get_float32_matmul_precision()
    return (
        torch.get_num_threads(),
        precision,
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    )


def test_real_functions_are_measured() -> None:
    def double() -> None:
        time.sleep(0.002)

    before = torch_settings()
    found = modescope.measure(double, lambda: time.sleep(0.001), seconds=0.5)
    assert torch_settings() == before
    assert found.verdict == "faster"
    assert 1.5 < found.speedup_ci_low <= found.speedup <= found.speedup_ci_high < 2.5
    assert (found.baseline, found.candidate) == ("baseline", "candidate")
    assert 0.001 < found.latency_s < found.baseline_latency_s
    assert f"candidate is {found.speedup:.3f}× [" in str(found)


def on_first() -> torch.Tensor:
    """As if it lay on the first GPU."""

    class Result(torch.Tensor):
        device = torch.device("cuda", 0)

    return torch.ones(1).as_subclass(Result)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"seconds": 0}, "seconds=0 "),
        ({"half_width": math.nan}, "half_width=nan: "),
        ({"device": "gpu"}, "device=gpu: "),
        # only launches would be timed
        ({"baseline": on_first}, "device='cuda:0'"),
        ({"candidate": on_first}, "device='cuda:0'"),
        # they return before they have worked
        ({"baseline": lambda: map(abs, [1])}, "has not done its work"),
        ({"candidate": lambda: [torch.futures.Future()]}, "has not done its work"),
    ],
)
def test_a_wrong_argument_is_one_sentence(
    arguments: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on_first in arguments.values():
        second = SimpleNamespace(torch_device=torch.device("cuda", 1))
        monkeypatch.setattr(api, "use_device", lambda name: nullcontext(second))
    called: dict[str, Any] = {"baseline": time.time, "candidate": time.time, **arguments}
    with pytest.raises(modescope.UsageError) as error:
        modescope.measure(**called)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)

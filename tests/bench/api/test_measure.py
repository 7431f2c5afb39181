"""`modescope.measure`: on simulated time, and for real."""

from __future__ import annotations

import math
import re
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
from modescope.bench.steps.evidence import mode_effect
from tests.helpers.paths import ROOT
from tests.helpers.simulated import SimulatedDevice, decaying, normal_noise, step

MEASURED = Measured(
    baseline="old",
    candidate="new",
    speedup=1.25,
    speedup_ci_low=1.241,
    speedup_ci_high=1.259,
    verdict="faster",
    mde=0.0104,
    latency_s=4e-5,
    baseline_latency_s=5e-5,
    flags=("drift", "contended"),
    device="cpu",
    seconds=0.25,
    ratios=(1.25,) * 20,
)


def race(
    baseline: Callable[[SimulatedDevice], Step],
    candidate: Callable[[SimulatedDevice], Step],
    queues: bool = False,
) -> Measured:
    device: Any = SimulatedDevice(queues=queues, read_cost_s=2e-8)
    return api.race(baseline(device), candidate(device), device, seconds=2.0, half_width=0.005)


def takes(seconds: float, sigma: float = 0.0) -> Callable[[SimulatedDevice], Step]:
    """Half of the time on the host, half on the device."""

    def build(device: SimulatedDevice) -> Step:
        scale = normal_noise(1, sigma) if sigma else lambda: 1.0
        return step(device, (seconds / 2, seconds / 2), scale=scale)

    return build


@pytest.mark.parametrize("queues", [False, True])
def test_the_speedup_is_the_baselines_time_over_the_candidates(queues: bool) -> None:
    found = race(takes(5e-5), takes(4e-5), queues)
    assert found.speedup == pytest.approx(1.25, rel=1e-3)
    assert (found.latency_s, found.baseline_latency_s) == pytest.approx((4e-5, 5e-5), rel=2e-3)
    assert (found.verdict, found.device) == ("faster", "cuda" if queues else "cpu")
    assert race(takes(4e-5), takes(5e-5), queues).verdict == "slower"


def test_rounds_end_when_the_speedup_is_known_well_enough() -> None:
    exact, noisy = race(takes(5e-5), takes(5e-5)), race(takes(1e-3), takes(1e-3, sigma=0.1))
    assert len(exact.ratios) == api.LEAST_ROUNDS
    assert len(noisy.ratios) > 2 * api.LEAST_ROUNDS
    assert exact.verdict == "equivalent"
    assert {*exact.flags} <= {"contended"}  # by other programs on this machine
    assert noisy.speedup_ci_low < 1 < noisy.speedup_ci_high
    assert noisy.mde > exact.mde


@pytest.mark.parametrize(("call_s", "change"), [(1e-7, 0.1), (3e-6, 0.02), (5e-5, 0.02)])
def test_a_short_function_is_timed_in_loops_that_the_clock_resolves(
    call_s: float, change: float
) -> None:
    """Reading the simulated clock takes 20 ns, which would hide a fifth of the first change."""
    found = race(takes(call_s), takes(call_s * (1 + change)))
    assert 1 / found.speedup - 1 == pytest.approx(change, rel=0.01)
    assert found.baseline_latency_s == pytest.approx(call_s, rel=0.002)


def test_functions_that_do_not_settle_are_flagged() -> None:
    def settles(device: SimulatedDevice) -> Step:
        return step(device, (1e-4, 0.0), scale=decaying(calls=2000, factor=9.0))

    assert "no_steady_state" in race(settles, takes(1e-4)).flags


def test_a_compilation_in_the_rounds_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mode_effect, "count_compilations", lambda: lambda: 3)
    monkeypatch.setattr(mode_effect, "recompile_reasons", lambda: lambda: ["size changed"])
    with pytest.raises(RuntimeError, match=r"compiled 3 more time\(s\).*: size changed"):
        race(takes(5e-5), takes(5e-5))


def test_real_functions_are_measured() -> None:
    def double() -> None:
        time.sleep(0.002)

    found = modescope.measure(double, lambda: time.sleep(0.001), seconds=0.1)
    assert found.verdict == "faster"
    assert 1.5 < found.speedup_ci_low <= found.speedup <= found.speedup_ci_high < 2.5
    assert (found.baseline, found.candidate) == ("baseline", "candidate")
    assert 0.001 < found.latency_s < found.baseline_latency_s


def test_an_exception_of_a_function_is_not_changed() -> None:
    def fails() -> None:
        raise KeyError("theirs")

    with pytest.raises(KeyError, match="theirs"):
        modescope.measure(fails, time.time)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"candidate": 3}, "candidate is int, and must be a function without arguments"),
        ({"seconds": 0}, "seconds=0: must be a number above 0"),
        ({"seconds": "1"}, "seconds='1': must be a number above 0"),
        ({"half_width": math.nan}, "half_width=nan"),
        ({"device": "gpu"}, "device=gpu: allowed are auto, cpu, cuda and cuda:<index>"),
    ],
)
def test_a_wrong_argument_is_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    called: dict[str, Any] = {"baseline": time.time, "candidate": time.time, **arguments}
    with pytest.raises(modescope.UsageError) as error:
        modescope.measure(**called)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_gpu_whose_work_would_not_be_waited_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only launches would be timed."""

    class Result(torch.Tensor):
        device = torch.device("cuda", 0)

    def on_first() -> dict[str, torch.Tensor]:
        return {"logits": torch.ones(1).as_subclass(Result)}

    second = SimpleNamespace(torch_device=torch.device("cuda", 1))
    monkeypatch.setattr(api, "use_device", lambda name: nullcontext(second))
    for functions in ((on_first, time.time), (time.time, on_first)):
        with pytest.raises(modescope.UsageError, match="device='cuda:0'"):
            modescope.measure(*functions)


def test_the_example_of_the_guide_runs(
    capsys: pytest.CaptureFixture[str], one_thread: None
) -> None:
    page = (ROOT / "docs" / "measure.md").read_text(encoding="utf-8")
    example, printed = re.findall(r"^```\w+\n(.*?)^```$", page, flags=re.M | re.S)[:2]
    exec(compile(example, "measure.md", "exec"), {})
    first, second = (line.split() for line in capsys.readouterr().out.splitlines()[:2])
    shown, times = (line.split() for line in printed.splitlines()[:2])
    assert [first[n] for n in (0, 1, 5, 6, 7)] == [shown[n] for n in (0, 1, 5, 6, 7)]
    assert second[0] == times[0]
    assert len(second) == len(times)


def test_a_result_without_an_interval_is_a_text_too() -> None:
    assert str(MEASURED).count("\n") == 2
    unknown = {"speedup_ci_low": None, "speedup_ci_high": None, "verdict": None, "mde": None}
    assert str(replace(MEASURED, **unknown, flags=())).count("\n") == 1


@pytest.mark.parametrize(
    "function",
    [lambda: map(abs, [1]), lambda: [torch.futures.Future()]],
    ids=["iterator", "future"],
)
@pytest.mark.parametrize("is_candidate", [True, False])
def test_a_function_that_returns_before_it_has_worked_is_refused(
    function: Callable[[], object], is_candidate: bool
) -> None:
    pair = [lambda: None, function]
    with pytest.raises(modescope.UsageError, match="has not done its work"):
        api.measure(*(pair if is_candidate else reversed(pair)), seconds=0.01)

"""Profiles of real steps on a CPU: kernels counted, doubts raised."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch._inductor.codecache import PyCodeCache

from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.evidence import compilation
from modescope.bench.model.building import build
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.passes.profiler import capture as capturing
from modescope.bench.passes.profiler.capture import (
    MOST_TURNS,
    QUEUED_STEPS,
    Profile,
    ProfiledCalls,
    capture,
    kernels_recorded,
    profile_calls,
)
from modescope.bench.passes.profiler.profile import columns, flags
from modescope.bench.records.cases import Model, Variant
from modescope.bench.stats import estimates
from modescope.bench.summary import disagrees
from tests.helpers.probe_models import variant
from tests.helpers.simulated import SimulatedDevice

BATCH, WIDTH = 4, 24  # of no other test: the compiler's cache does not know bytes of all code
EAGER = variant(grad="inference_mode")
COMPILE = variant(grad="inference_mode", compile="default")
MLP = {"batch": 2, "width": 8, "depth": 2}
EXPECTED_S = 1e-4


@pytest.fixture(autouse=True, scope="module")
def _compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


def built(name: str, asked: Variant = EAGER, **shape: int) -> Step:
    torch.manual_seed(0)
    subject = build(Model(name, f"modescope.models.{name}:build"), shape)
    return modes.build(subject, asked, True, Cpu(), ONE_CALL).step


def chain(ops: int, asked: Variant = EAGER) -> Step:
    return built("pointwise", asked, batch=BATCH, width=WIDTH, ops=ops)


def profile(step: Step) -> Profile:
    return capture(step, Cpu(), None, EXPECTED_S)


def heaviest(seen: Profile) -> dict[str, int]:
    return {heavy.name: heavy.count for heavy in seen.typical.heaviest_kernels}


def test_a_chain_of_pointwise_ops_is_as_many_kernels_in_eager() -> None:
    ops = 64
    seen = profile(chain(ops))
    assert [step.kernels for step in seen.steps] == [ops] * MOST_TURNS
    assert [step.ops_top for step in seen.steps] == [ops] * MOST_TURNS
    assert sum(heaviest(seen).values()) == ops
    assert flags(seen, None) == seen.notes == ()
    found = columns(seen, launches=False)
    assert len(seen.calls.paces_s) == MOST_TURNS
    assert found.profiled_pace_s == seen.calls.paces_s[seen.place] > 0
    assert found.profiled_latency_rounds_s == seen.calls.unrecorded_s
    assert found.kernels_s == found.profiled_kernels_rounds_s[seen.place]


@pytest.mark.full
def test_kernels_of_compiled_code_are_recorded_in_the_code_that_was_compiled() -> None:
    step = chain(16, COMPILE)
    step()
    with kernels_recorded() as called:
        seen = profile(step)
    assert called == {*heaviest(seen)}
    assert [step.kernels for step in seen.steps] == [1] * MOST_TURNS
    assert all(name.startswith("cpp_fused_") for name in heaviest(seen))
    assert heaviest(profile(step)) == {}


def test_only_recorded_kernels_that_were_called_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = ModuleType("mine"), ModuleType("other")
    monkeypatch.setattr(mine, "cpp_fused_mul_0", torch.neg, raising=False)
    monkeypatch.setattr(other, "cpp_fused_add_0", torch.neg, raising=False)
    monkeypatch.setattr(PyCodeCache, "modules", [mine, other])
    with kernels_recorded() as called:
        assert called == set()
        for _ in range(2):
            with pytest.raises(TypeError):
                mine.cpp_fused_mul_0("no tensor")
        mine.cpp_fused_mul_0(torch.ones(2))
        assert called == {"cpp_fused_mul_0"}
    assert mine.cpp_fused_mul_0 is other.cpp_fused_add_0 is torch.neg


@pytest.mark.full
def test_code_from_the_compiler_s_cache_is_counted_like_new_code() -> None:
    found = []
    for _ in range(2):
        torch.compiler.reset()
        with compilation.watch_compilations() as log, compilation.watch_code() as watch:
            chain(16, COMPILE)()
        found.append(watch.columns)
    assert (log.columns.compiler_cache_hits, log.columns.compiler_cache_misses) == (1, 0)
    assert found[0] == found[1]
    assert (found[0].generated_kernels, found[0].extern_calls) == (1, 0)


@pytest.mark.full
@pytest.mark.parametrize(("dynamic", "batch", "symbolic"), [(None, 4, 0), (True, 4, 1)])
def test_symbolic_sizes_of_generated_code_are_counted(
    dynamic: bool | None, batch: int, symbolic: int
) -> None:
    torch.compiler.reset()
    asked = variant(grad="inference_mode", compile="default", dynamic=dynamic)
    with compilation.watch_code() as watch:
        built("pointwise", asked, batch=batch, width=16, ops=4)()
    assert watch.symbolic_sizes == symbolic


def test_kernels_of_a_backward_pass_are_seen() -> None:
    """y = w * x; the sum; then in backward: ones_like, and one multiplication for w's gradient."""
    weight, x = torch.rand(4, requires_grad=True), torch.rand(4)

    def step() -> None:
        weight.grad = None
        (weight * x).sum().backward()

    assert heaviest(profile(step)) == {"aten::mul": 2, "aten::sum": 1, "aten::ones_like": 1}


def test_calls_between_profiled_ones_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace has the profiled calls, and the one that comes before all."""
    x, export = torch.rand(4), capturing._export
    recorded: list[str] = []

    def watched(profiler: torch.profiler.profile) -> Any:
        trace = export(profiler)
        recorded.extend(each["name"] for each in trace["traceEvents"])
        return trace

    monkeypatch.setattr(capturing, "_export", watched)
    seen = profile(lambda: torch.sin(torch.cos(x)))
    assert recorded.count("aten::sin") == MOST_TURNS + 1
    assert len(seen.calls.unrecorded_s) == len(seen.steps) == MOST_TURNS


def test_overhead_is_relative_to_the_calls_between() -> None:
    taken = ProfiledCalls((4.0, 9.0, 4.0), (1.0, 2.0, 1.0), (2.0, 3.0, 4.0))
    assert capturing._overhead(taken, 8.0) == 2.0
    assert capturing._overhead(replace(taken, unrecorded_s=None), 8.0) == 0.5
    assert capturing._overhead(replace(taken, unrecorded_s=None), 0.0) is None


def test_steps_that_do_different_things_are_noted() -> None:
    calls = count()
    x = torch.rand(4)

    def step() -> None:
        for _ in range(1 + next(calls) % 2):
            torch.sin(x)

    assert profile(step).notes == (
        "ops_top differs between steps: 1, 2",
        "kernels differs between steps: 1, 2",
    )


def _adding(x: torch.Tensor) -> torch.Tensor:
    return x + x


def _in_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.add(x.numpy(), x.numpy()))


@pytest.mark.parametrize(("kernel", "mode"), [(_adding, "eager"), (_in_numpy, "compiled")])
def test_operators_of_users_are_counted(
    kernel: Callable[[torch.Tensor], torch.Tensor], mode: str
) -> None:
    twice = torch.library.custom_op("modescope_test::twice", kernel, mutates_args=())
    twice.register_fake(torch.empty_like)
    x = torch.rand(4)

    def step() -> object:
        return twice(x)

    if mode == "compiled":
        step = torch.compile(step, backend="aot_eager")
    step()
    seen = profile(step)
    assert heaviest(seen).keys() == {"modescope_test::twice"}
    assert (seen.typical.kernels, seen.typical.ops_top) == (1, 1)
    around = getattr(twice._opoverload, "_pyobj_dispatcher", None) is not None
    assert [note.endswith(": modescope_test::twice") for note in seen.notes] == [True] * around


# Profiled calls in turns with unrecorded ones, on a machine that changes its pace

MACHINES = 100
SLOW = 1.75
PIECES, PIECE_S = 10, 1e-4  # of a call of 1 ms
DISPATCH = 0.05


def jumping(seed: int) -> Callable[[float], float]:
    """Two speeds, each for 0.3 to 30 ms, so that a profiled call may fall between them."""
    drawn = random.Random(seed)
    ends_s = [0.0]
    while ends_s[-1] < 1.0:
        ends_s.append(ends_s[-1] + 3e-4 * 100 ** drawn.random())
    return lambda now_s: SLOW if bisect(ends_s, now_s) % 2 else 1.0


def flagged(seed: int, shown: float) -> bool:
    """Whether `split_disagrees` is raised if the profiler shows this share of the real work."""
    device = SimulatedDevice(queues=False, slowdown=jumping(seed))
    noise = random.Random(seed)
    calls_s: list[float] = []

    def step() -> None:
        start_s = device.now_s
        for _ in range(PIECES):
            device.launch(PIECE_S * noise.gauss(1, 0.05), 0.0)
        calls_s.append(device.now_s - start_s)

    taken = profile_calls(step, device, PIECES * PIECE_S)
    profiled_s = [calls_s[place] for place in range(2, len(calls_s), capturing.CALLS_PER_TURN)]
    assert list(taken.latencies_s) == pytest.approx(profiled_s)
    assert taken.unrecorded_s is not None
    kernels_s = [shown * (1 - DISPATCH) * latency_s for latency_s in taken.latencies_s]
    dispatch = np.random.default_rng(seed).normal(DISPATCH, DISPATCH / 10, MOST_TURNS)
    found = {
        "dispatch_share": estimates.median_interval(dispatch),
        "kernels_share": estimates.ratio(kernels_s, taken.unrecorded_s),
    }
    return disagrees({"device": "cpu"}, found)


@pytest.mark.parametrize(
    ("shown", "least", "most"), [(0.9, 0, 1), (1.1, 0, 1), (0.7, 19, 20), (1.3, 19, 20)]
)
def test_only_a_profile_that_disagrees_is_flagged_while_the_pace_jumps(
    shown: float, least: int, most: int
) -> None:
    """Of twenty rows. Up to 15 % are allowed; more is missing, or slower under the profiler."""
    raised = sum(flagged(seed, shown) for seed in range(MACHINES))
    assert least * MACHINES / 20 <= raised <= most * MACHINES / 20


@pytest.mark.parametrize(
    ("queues", "expected_s", "profiled"),
    [(False, 0.0, MOST_TURNS), (False, 0.04, 8), (False, 30.0, 1), (True, 0.1, QUEUED_STEPS)],
)
def test_fewer_slow_steps_are_profiled(queues: bool, expected_s: float, profiled: int) -> None:
    device = SimulatedDevice(queues=queues)
    taken = profile_calls(lambda: device.launch(1.0, 0.0), device, expected_s)
    assert taken.latencies_s == (1.0,) * profiled
    assert len(taken.paces_s) == profiled
    assert taken.unrecorded_s == (None if queues else (1.0,) * profiled)


def test_each_profiled_call_has_the_mean_of_the_calls_around_it() -> None:
    """Calls take 1, 2, 3, ... s; of three, the second is timed and the third is profiled."""
    device, seconds = SimulatedDevice(queues=False), count(1)

    def step() -> None:
        device.launch(next(seconds), 0.0)

    taken = profile_calls(step, device, 0.1)
    assert taken.latencies_s == (3.0, 6.0, 9.0)
    assert taken.unrecorded_s == (3.5, 6.5, 9.5)

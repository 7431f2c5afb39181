"""Experiments that wait for clocks, made short; and their snippets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from modescope.bench.devices.devices import Cpu, Step
from modescope.bench.steps.modes import GRAD
from modescope.bench.sweep.process import isolation
from modescope.bench.tools.claims import lab, measuring
from modescope.bench.tools.claims.chapters.dispatch import inference_speed, launches
from modescope.bench.tools.claims.chapters.dispatch.inference_speed import chain, product
from modescope.bench.tools.claims.needs import lacking
from modescope.bench.tools.claims.table import CLAIMS
from modescope.bench.tools.claims.verdict import HOLDS, WITHIN_LIMITS

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("as_in_a_child", "one_thread")]

SMALL, LARGE = "50 pointwise", "a product"


@pytest.fixture
def gains(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """What is observed of two requests."""
    requests = {
        SMALL: (partial(chain, 64), partial(chain, 2)),
        LARGE: (partial(product, 256, 128), partial(product, 2, 1)),
    }
    monkeypatch.setattr(inference_speed, "REQUESTS", requests)
    monkeypatch.setattr(inference_speed, "TIMED_S", 0.2)
    return lambda: CLAIMS["inference-vs-no-grad"].observe(Cpu())


def test_what_inference_mode_saves_is_told_apart_by_size(gains: Callable[[], Any]) -> None:
    observation = gains()
    assert observation.saved[SMALL].value > 0.03  # 0.18 where nothing else runs
    assert observation.overhead[SMALL].value > 0.5 > 0.1 > observation.overhead[LARGE].value


def test_a_mode_that_saves_nothing_is_not_found_to(
    gains: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GRAD, "inference_mode", torch.no_grad)
    observation = gains()
    assert observation.saved[SMALL].value < 0.03
    verdict = CLAIMS["inference-vs-no-grad"].decide(observation)
    assert verdict.answer not in (HOLDS, WITHIN_LIMITS)


class Pretending(Cpu):
    """A CPU that says it captures."""

    def capture(self, step: Step) -> Step:
        return step


def test_marks_are_read_from_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no GPU, there is no time on it, and a graph saves nothing."""
    monkeypatch.setattr(launches, "SIDES", (4, 16))
    monkeypatch.setattr(lab, "speedup", partial(measuring.speedup, timed_max_s=0.02))
    observation: Any = CLAIMS["profiler-launch-bound"].observe(Pretending())
    assert list(observation.speedups) == ["4 wide", "16 wide"]
    assert all(seconds > 0 for seconds in observation.self_cpu_s.values())
    assert set(observation.self_cuda_s.values()) == set(observation.kernel_s.values()) == {0.0}


TIMED = [id for id, claim in CLAIMS.items() if claim.timed and "cpu" in claim.devices]


@pytest.mark.parametrize("id", TIMED)
def test_a_snippet_says_what_does_not_differ_from_run_to_run(id: str) -> None:
    missing = lacking(CLAIMS[id], ["cpu"])
    if missing:
        pytest.skip(missing)
    outcome = isolation.call("modescope.bench.tools.claims.inside:run_snippet", id, timeout_s=120)
    lines = outcome.value.splitlines()
    assert lines
    assert all(line.endswith(("True", "False")) for line in lines)

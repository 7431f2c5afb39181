"""Caches that new processes use or lack, each proven with the option dropped on the floor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.records.cases import Mode, Model, Variant
from modescope.bench.records.columns.starting import Starts
from modescope.bench.records.results import Ended
from modescope.bench.records.starts import Start
from modescope.bench.sweep import starts
from tests.helpers.made_up_records import COMPILE
from tests.helpers.probe_models import case, smoke

pytestmark = pytest.mark.full

MODEL = """
import torch

{planted}


class Waves(torch.nn.Module):
    def forward(self, x):
        return torch.sin(x) * 2


def build():
    return Waves(), (torch.ones(64),)
"""

LATE_COMPILER = """
import time
from functools import wraps
from torch._inductor import compile_fx

original = compile_fx.compile_fx


@wraps(original)
def late(*given, **named):
    time.sleep(8)
    return original(*given, **named)


compile_fx.compile_fx = late
"""

DROPPED = """
from modescope.bench.records.caches import CACHES
object.__setattr__(CACHES[{cache!r}], {function!r}, lambda: None)
"""

UNSAVED = """
from modescope.bench.modes import saved_functions
saved_functions.save = lambda *given: None
"""

Planted = Callable[..., Starts]


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """What one start with a cache gives; each process runs the code `planted` with its model."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "1")  # compiles no tests of instructions

    def measured(cache: str, code: str = "") -> Starts:
        (tmp_path / "planted.py").write_text(MODEL.format(planted=code))
        mode: Mode = replace(COMPILE, compile="aot") if cache == "aot" else COMPILE
        asked = case(Model("custom:planted:build", "planted:build"), Variant(mode, "fp32"), None)
        plan = replace(smoke(), compile_cache=cache, timeout_s=300, starts=1)
        with starts.opened(asked, plan, tmp_path / "log") as rung:
            return starts.measure(rung, asked, plan, lambda phase: None)

    return measured


def test_the_compilers_time_is_that_of_its_phase(planted: Planted, tmp_path: Path) -> None:
    seen = list[Start]()
    original = starts.run

    def run(*given: Any) -> Any:
        timed = original(*given)
        seen.append(timed.start)
        return timed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "run", run)
        found = planted("cold", LATE_COMPILER)
    phases = seen[0].phases_s
    assert phases.pop("inductor") > 8
    assert max(phases[name] for name in ("load", "dynamo", "run", "rest")) < 8
    assert min(phases[name] for name in ("import", "kernels")) > 0
    assert (found.start_graphs, found.start_hits, found.start_misses) == (1, 0, 1)
    assert found.starts_s[0] == pytest.approx(seen[0].whole_s, rel=0.02)


COUNTS = {
    # graphs, hits, misses
    "warm": (1, 1, 0),
    "shipped": (1, 1, 0),
    "precompiled": (0, 1, 0),
    "aot": (0, 0, 0),
}


@pytest.mark.parametrize("cache", COUNTS)
def test_a_cache_is_used(planted: Planted, cache: str) -> None:
    found = planted(cache)
    assert (found.start_graphs, found.start_hits, found.start_misses) == COUNTS[cache]
    assert starts.why_unused(cache, found) is None
    assert found.fill_s > 0
    assert found.cache_bytes > 0 or cache == "aot"
    assert (found.shipped_bytes is not None) == (cache in ("shipped", "aot"))


@pytest.mark.parametrize(
    ("cache", "function", "why"),
    [
        ("shipped", "load", "code was generated"),
        ("shipped", "save", "code was generated"),
        ("precompiled", "save", "Dynamo made a graph"),
    ],
)
def test_a_cache_that_nothing_fills_or_loads_is_not_in_effect(
    planted: Planted, cache: str, function: str, why: str
) -> None:
    found = planted(cache, DROPPED.format(cache=cache, function=function))
    assert why in starts.why_unused(cache, found)


def test_a_function_that_was_not_saved_is_an_error_in_one_line(planted: Planted) -> None:
    with pytest.raises(Ended) as ended:
        planted("aot", UNSAVED)
    result = ended.value.result
    assert result.status == "failed"
    assert len(str(result.reason).splitlines()) == 1
    assert "aot_compile" in str(result.reason)

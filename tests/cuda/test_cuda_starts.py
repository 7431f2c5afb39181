"""New processes that start on a GPU with each state of the compiler's caches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.records.cases import Mode, Model, Variant
from modescope.bench.records.columns.starting import PHASES
from modescope.bench.sweep import starts
from tests.helpers.probe_models import case, preset, smoke

pytestmark = pytest.mark.cuda

STATES = ["cold", "warm", "shipped", "precompiled", "aot"]


def started(cache: str, mode: Mode, folder: Path) -> tuple[starts.Timed, int]:
    """A process that starts with what another filled, and how many bytes that were."""
    chain = Model("pointwise", "modescope.models.pointwise:build")
    of = case(chain, Variant(mode, "fp32"), device="cuda")
    of = replace(of, shape_json='{"batch":4,"ops":16,"width":16}')
    plan = replace(smoke(), compile_cache=cache, timeout_s=120.0)
    with starts.opened(of, plan, folder / "log") as rung:
        if rung.needs_filling:
            assert rung.fill().start.failure is None
        return rung.start(), rung.shipped_bytes or rung.cache_bytes or 0


@pytest.mark.parametrize("cache", STATES)
def test_a_start_on_a_gpu(cache: str, tmp_path: Path) -> None:
    mode = preset("compile")
    mode = replace(mode, compile="aot") if cache == "aot" else mode
    timed, kept_bytes = started(cache, mode, tmp_path)
    start = timed.start
    assert start.failure is None, (tmp_path / "log").read_text()
    assert start.error == pytest.approx(0, abs=1e-5)
    assert {*start.phases_s} <= {*PHASES}
    assert sum(start.phases_s.values()) == pytest.approx(timed.until_result_s, rel=0.02)
    assert bool(kept_bytes) == (cache != "cold")
    counts = {"cold": (1, 0, 1), "warm": (1, 1, 0), "shipped": (1, 1, 0), "precompiled": (0, 1, 0)}
    if cache in counts:
        assert (start.graphs, start.hits, start.misses) == counts[cache]


def test_a_start_with_cuda_graphs(tmp_path: Path) -> None:
    timed, _ = started("warm", preset("reduce-overhead"), tmp_path)
    assert timed.start.failure is None
    assert timed.start.hits == 1

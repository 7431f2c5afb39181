"""The steps from eager to compiled modes on a GPU, with CUDA graphs and without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.case import runner
from modescope.bench.records.cases import Model, Variant
from modescope.bench.stats import gap
from tests.helpers.probe_models import case, preset, silent, smoke

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("fresh_compiler")]


@pytest.mark.parametrize(
    ("mode", "last"),
    [("compile", "guards"), ("reduce-overhead", "capture"), ("compile-cuda-graph", "capture")],
)
def test_steps_end_with_the_mode(mode: str, last: str, tmp_path: Path) -> None:
    chain = Model("pointwise", "modescope.models.pointwise:build")
    of = case(chain, Variant(preset(mode), "fp32"), device="cuda")
    of = replace(of, shape_json='{"batch":4,"ops":16,"width":16}')
    plan = replace(smoke(), explain="true", results_dir=str(tmp_path))
    seen = runner.run(silent, of, plan).findings.gap_steps
    assert seen.steps_note is None
    ladder = gap.rungs(gap.by_variant(seen.steps, seen.steps_rounds_s))
    assert ladder[-1] == last
    assert {"autograd", "python", "code", "entry", "guards"} <= {*ladder}

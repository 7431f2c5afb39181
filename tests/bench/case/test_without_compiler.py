"""A case that compiles nothing does not import torch's compiler, which takes seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

pytestmark = pytest.mark.full

CASE = """
import sys
from dataclasses import replace
from modescope.bench.case import runner
from modescope.bench.records.cases import Model, Variant
from tests.helpers.made_up_records import AMP, BUDGET, EAGER, case, plan
brief = replace(BUDGET, warmup_max_s=0.02, pilot_rounds=2, max_rounds=2, min_rounds=2)
model = Model("pointwise", "modescope.models.pointwise:build")
asked = case(
    model=model,
    shape_json='{{"batch":4,"ops":4,"width":16}}',
    variant=Variant({mode}, {dtype!r}),
)
asks = dict(profile=True, memory=True, replicate=0, seed=0, compile_cache="warm", max_error=None)
wanted = plan(**asks, study="s", results_dir={folder!r}, trace_max_bytes=0)
result = runner.run(lambda *_: None, asked, replace(wanted, budget=brief))
compiler = {{"torch._dynamo", "torch._inductor"}}
print(result.status, result.reason, *sorted(compiler & {{*sys.modules}}))
"""

CHILD = """
from modescope.bench.sweep import isolation
isolation.start(compiler=False)
task = isolation.Task("tests.helpers.child_functions:imports", bool)
print(isolation.call(task, "torch._dynamo", timeout_s=60).value)
"""

MEASURE = """
import sys, time, torch._dynamo
import modescope
modescope.measure(time.time, time.time, seconds=0.05)
print("torch._inductor.graph" in sys.modules)
"""

COMPILES = """
import torch
from modescope.bench.passes.operator_comparison import Operators
from modescope.bench.evidence import compiler_counts
def compiled(x):
    return torch.compile(torch.sin, backend="eager")(x)
with Operators():
    compiled(torch.ones(2))
count = compiler_counts.count_compilations()
compiled(torch.ones(2))
print(count())
"""


def _printed(code: str) -> str:
    return subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).strip()


@pytest.mark.parametrize(("mode", "dtype"), [("EAGER", "fp32"), ("AMP", "bf16")])
def test_a_case_that_compiles_nothing_imports_no_compiler(
    mode: str, dtype: str, tmp_path: Path
) -> None:
    code = CASE.format(mode=mode, dtype=dtype, folder=str(tmp_path))
    assert _printed(code) == "ok None"


def test_the_forkserver_imports_no_compiler_if_it_is_left_out() -> None:
    assert _printed(CHILD) == "False"


def test_measuring_functions_imports_no_inductor_if_only_dynamo_is_loaded() -> None:
    assert _printed(MEASURE) == "False"


def test_what_an_observer_compiles_first_is_compiled_after_it() -> None:
    """Dynamo, which the call itself imports, would skip the code for good."""
    assert _printed(COMPILES) == "1"

"""The printed programs that start with what another process compiled are run, twice each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.recommend.code import code
from modescope.bench.records.results import work_of
from tests.helpers.probe_models import case, linear, model, smoke
from tests.helpers.programs import named
from tests.helpers.rows import row_with

BEFORE = """
import torch
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
    def forward(self, x):
        return self.layer(x).relu()
model = Net()
inputs = INPUTS
plain = model(torch.ones(2, 8))
"""
AFTER = """
import json
from torch._dynamo.utils import counters
found = [bool(torch.allclose(output, plain, atol=1e-5)), counters["stats"]["unique_graphs"],
         counters["inductor"]["fxgraph_cache_hit"]]
print(json.dumps(found))
"""


def program(cache: str, words: str, named_inputs: bool) -> str:
    asked = named(words)
    if cache == "aot":
        asked = replace(asked, mode=replace(asked.mode, compile="aot"))
    plan = replace(smoke(), compile_cache=cache)
    work = work_of(case(model(linear), asked), plan)
    found = {"named_inputs": named_inputs, "dtypes_kept": None, "region_names": None}
    return code(row_with(asdict(work), **found))


def run(source: str, folder: Path, number: int) -> list[Any]:
    """Whether the program's output is right, the graphs that Dynamo made, and those found."""
    own = folder / f"caches-{number}"
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(own), "TORCHINDUCTOR_VEC_ISA_OK": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", source], cwd=folder, env=os.environ | environment,
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found: list[Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.full
@pytest.mark.parametrize(
    ("cache", "makes_graphs"),
    [("warm", True), ("shipped", True), ("precompiled", False), ("aot", False)],
)
@pytest.mark.parametrize("named_inputs", [False, True])
def test_the_second_process_starts_with_what_the_first_one_left(
    tmp_path: Path, cache: str, makes_graphs: bool, named_inputs: bool
) -> None:
    inputs = '{"x": torch.ones(2, 8)}' if named_inputs else "(torch.ones(2, 8),)"
    source = BEFORE.replace("INPUTS", inputs) + program(cache, "compile fp32", named_inputs) + AFTER
    is_right, graphs, _ = run(source, tmp_path, 0)
    assert is_right
    assert graphs == 1
    is_right, graphs, hits = run(source, tmp_path, 1)
    assert is_right
    assert (graphs > 0) == makes_graphs
    assert (hits > 0) == makes_graphs


def test_a_mode_that_compiles_nothing_has_no_such_lines() -> None:
    for cache in ("warm", "shipped", "precompiled"):
        assert program(cache, "eager fp32", False) == program("cold", "eager fp32", False)

"""First calls, cold and warm: bars have the planted phases, and a miss of the cache is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.figures import compiling
from modescope.bench.records.results import Record
from tests.helpers.drawings import bars, names, numbers, only_axes, rows_of
from tests.helpers.studies import record


def first_call(
    cache: str, first_call_s: float, mode: str = "compile", misses: int = 0, **phases_s: float
) -> Record:
    return record(
        mode, 300e-6, 1.2, case_id=mode, compile_cache=cache, first_call_s=first_call_s,
        compile_phases_s=json.dumps(phases_s), compiler_cache_hits=1 - misses,
        compiler_cache_misses=misses,
    )  # fmt: skip


WARM = first_call("warm", 1.0, dynamo=0.5, kernels=0.0)
COLD = first_call("cold", 7.0, misses=1, dynamo=0.75, inductor=2.0, kernels=4.0)


def test_cold_lies_above_warm_and_the_phases_add_up_to_the_first_call(tmp_path: Path) -> None:
    axes = only_axes(compiling.draw(rows_of(tmp_path, WARM, COLD)))
    assert names(axes) == ["compile fp32, cold", "compile fp32, warm"]
    assert numbers(axes) == ["first call 7.00 s", "first call 1.00 s"]
    assert bars(axes) == [(0, 0.75), (0.75, 2), (2.75, 4), (6.75, 0.25), (0, 0.5), (0.5, 0.5)]


@pytest.mark.parametrize(
    "others",
    [
        (),
        (first_call("warm", 1.0, "amp-compile", dynamo=0.5),),
        (first_call("warm", 1.0),),
        (record("compile", compile_cache="warm", case_id="compile", threads=2),),
    ],
)
def test_without_both_states_there_is_no_figure(tmp_path: Path, others: Any) -> None:
    assert compiling.draw(rows_of(tmp_path, COLD, *others)) is None


def test_the_table_has_each_phase_that_took_any_time(tmp_path: Path) -> None:
    table = compiling.table(rows_of(tmp_path, COLD, WARM))
    assert table.titles == (
        "mode", "dtype", "cache", "first call", "tracing (Dynamo)", "Inductor", "C++ or Triton",
        "the rest of the call", "from cache", "baseline's",
    )  # fmt: skip
    assert [line[2] for line in table.rows] == ["cold", "warm"]
    assert table.rows[1][4:8] == ("500 ms", "–", "–", "500 ms")

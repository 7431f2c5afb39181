"""Columns of a result: of the case, joined, noted, flagged."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import get_args

import pytest

from modescope.bench.records.cases import Model
from modescope.bench.records.columns import checks, compiling, passes, quantized, starting, timing
from modescope.bench.records.columns.checks import Checks
from modescope.bench.records.columns.passes import Memory, WorkCounts
from modescope.bench.records.columns.timing import Rounds
from modescope.bench.records.results import Findings, add_flag, add_note, columns_of, row, work_of
from tests.helpers.made_up_records import case, plan


@pytest.mark.parametrize(
    ("args_json", "shape_json", "columns"),
    [
        ('{"batch":3,"seq":5}', "{}", (3, 5)),
        ('{"batch":3,"seq":"long"}', '{"seq":7}', (3, 7)),
        ('{"batch":true,"seq":2.5}', "{}", (None, None)),
    ],
)
def test_sizes_are_columns_also_where_they_are_arguments_of_the_model(
    args_json: str, shape_json: str, columns: tuple[int | None, int | None]
) -> None:
    model = Model("custom:net:build", "net:build", args_json)
    work = work_of(case(model=model, shape_json=shape_json), plan())
    assert (work.batch, work.seq) == columns


def test_findings_contain_every_group_of_columns() -> None:
    modules = (checks, compiling, passes, quantized, starting, timing)
    groups = {kind for module in modules for kind in vars(module).values() if is_dataclass(kind)}
    assert {column.group for column in columns_of(Findings)} == {*groups, Findings}


def test_a_row_has_a_null_for_every_column_of_rounds_that_were_not_played() -> None:
    names = [column.name for column in columns_of(Rounds)]
    nothing = row(Findings())
    assert list(nothing) == [column.name for column in columns_of(Findings)]
    assert {nothing[name] for name in names} == {None}
    assert all(type(None) in get_args(c.hint) for c in columns_of(Findings) if c.name in names)
    rounds = Rounds(timed_s=2.0, calls_per_round=3, latency_rounds_s=(1.0,))
    found = row(Findings(Checks(error=0.5), rounds=rounds, flags=("drift",)))
    expected = {
        "error": 0.5, "timed_s": 2.0, "calls_per_round": 3, "latency_rounds_s": (1.0,),
        "flags": ("drift",),
    }  # fmt: skip
    assert found == nothing | expected


def test_notes_and_flags_are_added() -> None:
    known = Findings(memory=Memory(weights_bytes=8, memory_note="sparse"), flags=("drift",))
    found = add_note(known, ["memory_note", "work_note"], "lost")
    found = add_flag(add_note(found, ["work_note"], None), "contended")
    assert found == Findings(
        memory=Memory(weights_bytes=8, memory_note="sparse; lost"),
        work=WorkCounts(work_note="lost"),
        flags=("drift", "contended"),
    )

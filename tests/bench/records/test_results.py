"""Columns of a result: of the case, joined, noted, flagged."""

from __future__ import annotations

from dataclasses import is_dataclass

import pytest

from modescope.bench.records import columns
from modescope.bench.records.cases import Model
from modescope.bench.records.columns import Clocks, Rounds
from modescope.bench.records.results import Findings, add_columns, add_flag, add_note, work_of
from tests.helpers.made_up_records import case, plan


def test_the_columns_of_a_case() -> None:
    work = work_of(case(model=Model("custom:net:build", "net:build")), plan(compile_cache="warm"))
    assert (work.model, work.mode, work.grad, work.compile_mode) == (
        "custom:net:build",
        "compile",
        "inference_mode",
        "default",
    )
    assert (work.batch, work.seq) == (8, None)
    assert (work.baseline_mode, work.baseline_dtype) == ("eager", "fp32")
    assert work.compile_cache == "warm"
    alone = work_of(case(baseline=None), plan())
    assert (alone.baseline_mode, alone.baseline_dtype) == (None, None)


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
    groups = {each for each in vars(columns).values() if is_dataclass(each)}
    assert groups == {each for each in Findings.__mro__[1:] if is_dataclass(each)}


def test_nulls_of_a_group_are_joined_too() -> None:
    known = Findings(error=0.5, clocks_s=3.0, flags=("drift",))
    joint = add_columns(known, Rounds(timed_s=2.0), Clocks(host_rounds_s=(1.0,)))
    assert joint == Findings(
        error=0.5, timed_s=2.0, host_rounds_s=(1.0,), clocks_s=None, flags=("drift",)
    )


def test_notes_are_appended_to_earlier_notes() -> None:
    columns = Findings(memory_note="sparse")
    assert add_note(columns, [], "lost") == columns
    found = add_note(columns, ["memory_note", "work_note"], "lost")
    assert (found.memory_note, found.work_note) == ("sparse; lost", "lost")
    assert add_note(columns, ["work_note"], None) == columns
    assert add_flag(add_flag(columns, "a"), "b").flags == ("a", "b")

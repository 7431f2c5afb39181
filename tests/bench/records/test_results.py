"""Columns of a result: of the case, joined, noted, flagged."""

from __future__ import annotations

from dataclasses import is_dataclass

import pytest

from modescope.bench.records import columns
from modescope.bench.records.cases import Model
from modescope.bench.records.columns import Clocks, Rounds
from modescope.bench.records.results import Findings, add_columns, add_flag, add_note, work_of
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
    groups = {each for each in vars(columns).values() if is_dataclass(each)}
    assert groups == {each for each in Findings.__mro__[1:] if is_dataclass(each)}


def test_columns_notes_and_flags_are_added() -> None:
    known = Findings(error=0.5, clocks_s=3.0, memory_note="sparse", flags=("drift",))
    found = add_columns(known, Rounds(timed_s=2.0), Clocks(host_rounds_s=(1.0,)))  # nulls, too
    found = add_note(found, ["memory_note", "work_note"], "lost")
    found = add_flag(add_note(found, ["work_note"], None), "contended")
    assert found == Findings(
        error=0.5, timed_s=2.0, host_rounds_s=(1.0,), clocks_s=None,
        memory_note="sparse; lost", work_note="lost", flags=("drift", "contended"),
    )  # fmt: skip

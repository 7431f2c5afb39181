"""The sides of a comparison: which of their processes are compared, and in what they differ."""

from __future__ import annotations

from typing import Any

import pytest

from modescope.analysis.compare import arguments, differences
from modescope.analysis.compare.sides import StudySide, keep_shared_blocks, pair_rows
from modescope.bench.records.errors import UsageError
from tests.helpers.comparisons import processes, side


def of_blocks(label: str, blocks: list[Any], modes: tuple[str, ...] = ("eager",)) -> StudySide:
    one = side(label, processes(1, count=len(blocks), modes=modes))
    one.processes["versus_block"] = blocks * len(modes)
    return one


def blocks(one: StudySide) -> list[Any]:
    return [None if block != block else block for block in one.processes["versus_block"]]


def test_processes_without_a_partner_in_their_block_are_left_out() -> None:
    old, new = keep_shared_blocks(of_blocks("OLD", [3, 4, 7, 8]), of_blocks("NEW", [7, 8, 9]))
    assert (blocks(old), blocks(new)) == ([7, 8], [7, 8])
    assert old.notes == ("OLD: 2 processes are left out, whose block is on one side only",)
    assert new.notes == ("NEW: 1 process is left out, whose block is on one side only",)


def test_rows_without_a_common_block_stay_as_they_are() -> None:
    for first, second in (([0, 1], [2, 3]), ([None, None], [None, None]), ([0, 1], [None, None])):
        old, new = keep_shared_blocks(of_blocks("OLD", first), of_blocks("NEW", second))
        assert (len(old.processes), len(new.processes)) == (2, 2)
        assert old.notes == new.notes == ()


def test_each_row_has_blocks_of_its_own() -> None:
    old = of_blocks("OLD", [0, 1], ("eager", "compile"))
    new = of_blocks("NEW", [0, 1], ("eager", "compile"))
    new.processes["versus_block"] = [0, 1, 1, 2]  # compile was measured again
    old, new = keep_shared_blocks(old, new)
    assert blocks(old) == [0, 1, 1]
    assert blocks(new) == [0, 1, 1]


FEW: dict[str, Any] = {"count": 1, "modes": ("compile",)}


def found(old: dict[str, Any], new: dict[str, Any]) -> list[differences.Difference]:
    sides = side("OLD", processes(1, **FEW, **old)), side("NEW", processes(2, **FEW, **new))
    return differences.find_differences(pair_rows(*sides))


def test_what_may_differ_is_reported() -> None:
    source = ("0123456789abcdef", "fedcba9876543210")
    differing = found(
        {"torch_version": "2.12.1", "cpu_governor": None, "model_source_id": source[0], "seed": 0,
         "quantizer": "torchao 0.17.0"},
        {"torch_version": "2.13", "cpu_governor": "slow", "model_source_id": source[1], "seed": 1,
         "quantizer": "torchao 0.18.0"},
    )  # fmt: skip
    assert {one.column: (one.old, one.new, one.rows) for one in differing} == {
        "torch_version": ("2.12.1", "2.13", 1),
        "cpu_governor": ("–", "slow", 1),
        "quantizer": ("torchao 0.17.0", "torchao 0.18.0", 1),
        "model_source_id": ("01234567", "fedcba98", 1),
        "seed": ("0", "1", 1),
    }
    differences.check(differing, ())


def test_what_makes_results_incomparable_is_refused_until_allowed() -> None:
    columns: dict[str, tuple[str, Any, Any]] = {
        "host": ("host", "one", "other"),
        "cpu_model": ("host", "AMD 25.17", "AMD 26.2"),
        "cpu_quota_cores": ("host", None, 2.0),
        "device_name": ("device", "NVIDIA H100", "NVIDIA H200"),
        "driver_version": ("driver_version", "550", "570"),
        "power_limit_w": ("power_limit", 700.0, 500.0),
        "source_id": ("harness", "0" * 16, "1" * 16),
        "budget": ("budget", "quick", "standard"),
        "budget_settings": ("budget", '{"max_rounds":20}', '{"max_rounds":40}'),
        "variables": ("variables", '{"A":"1","B":"2"}', '{"A":"1","C":"3"}'),
    }
    sides = ({column: each[n] for column, each in columns.items()} for n in (1, 2))
    differing = found(*sides)
    assert {one.column: one.refusal for one in differing} == {
        column: name for column, (name, _, _) in columns.items()
    }
    (variables,) = (one for one in differing if one.column == "variables")
    assert (variables.old, variables.new) == ("B=2, C=–", "B=–, C=3")
    for one in differing:
        with pytest.raises(UsageError, match=rf"{one.column} .* → .*--allow {one.refusal}$"):
            differences.check(differing, {*arguments.ALLOWED} - {one.refusal})
    differences.check(differing, arguments.ALLOWED)


def test_a_run_that_ended_before_its_environment_was_read_differs_in_nothing() -> None:
    blank = {"environment_id": None, "host": None, "torch_version": None, "status": "crashed"}
    assert found({}, blank) == []


def test_sides_of_versus_that_are_exchanged_are_refused() -> None:
    old = side("OLD", processes(1, **FEW), versus_side="new", versus_block=0)
    new = side("NEW", processes(2, **FEW), versus_side="old", versus_block=0)
    differing = differences.find_differences(pair_rows(old, new))
    with pytest.raises(UsageError, match=r"versus_side new → old.*--allow versus_side"):
        differences.check(differing, ())

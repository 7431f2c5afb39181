"""Which processes of two studies are compared: those that took turns."""

from __future__ import annotations

from typing import Any

from modescope.analysis.compare.sides import Side, keep_shared_blocks
from tests.helpers.comparisons import processes, side


def of_blocks(label: str, blocks: list[Any], modes: tuple[str, ...] = ("eager",)) -> Side:
    one = side(label, processes(1, count=len(blocks), modes=modes))
    one.processes["versus_block"] = blocks * len(modes)
    return one


def blocks(one: Side) -> list[Any]:
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

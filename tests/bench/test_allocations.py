"""The monitor of allocations, on code with known allocations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from modescope.bench.allocations import WatchedBlock, watch_allocations
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import Ending

pytestmark = pytest.mark.usefixtures("as_in_a_child")

KIB = 1024


def block(size: int = KIB) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8)


def figures(seen: WatchedBlock) -> tuple[int, int, int, int, int]:
    """Allocations, bytes allocated, freed, left and at most."""
    ends = seen.freed_bytes, seen.left_bytes, seen.peak_bytes
    return seen.allocations, seen.allocated_bytes, *ends


def test_memory_is_left_or_freed() -> None:
    with watch_allocations("still referenced", "cpu", None) as seen:
        assert (seen.allocations, str(seen)) == (None, "still referenced: still running")
        kept = [block() for _ in range(3)]
    assert figures(seen) == (3, 3 * KIB, 0, 3 * KIB, 3 * KIB)
    del kept
    with watch_allocations("dropped one after the other", "cpu", None) as seen:
        for _ in range(3):
            block()
    assert figures(seen) == (3, 3 * KIB, 3 * KIB, 0, KIB)


def test_memory_of_an_earlier_watch_can_be_freed_in_a_later_one() -> None:
    with watch_allocations("take, and leave garbage", "cpu"):
        kept = [block()]
        loop: list[object] = [block()]
        loop.append(loop)
        del loop
    with watch_allocations("give back", "cpu") as seen:
        kept.clear()
    assert figures(seen) == (0, 0, KIB, -KIB, 0)


def test_the_default_report_is_one_printed_line(capsys: pytest.CaptureFixture[str]) -> None:
    with watch_allocations("two blocks", "cpu"):
        block(), block()
    with watch_allocations("a view", "cpu"):
        pass
    assert capsys.readouterr().out.splitlines() == [
        "two blocks: 2 allocations of 2,048 B on cpu, 2,048 B freed, 2,048 B at most",
        "a view: no allocation on cpu, 0 B freed, 0 B at most",
    ]


def test_watches_cannot_be_nested() -> None:
    with watch_allocations("outer", "cpu", None) as outer:
        block()
        with pytest.raises(RuntimeError, match="which is already running: end the other"):
            watch_allocations("inner", "cpu", None).__enter__()
        block()
    assert outer.allocations == 2


def test_only_the_report_is_printed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    asked = isolation.call(
        isolation.Task("tests.helpers.child_functions:watches_allocations", object),
        timeout_s=60,
        log=log,
    )
    assert asked.kind == Ending.RETURNED
    assert log.read_text() == "a block: 1 allocation of 40 B on cpu, 40 B freed, 40 B at most\n"

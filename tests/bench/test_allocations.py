"""The monitor of allocations, on code with known allocations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from modescope.bench.allocations import WatchedBlock, watch_allocations
from modescope.bench.devices.allocators import Allocations, Watched
from modescope.bench.devices.devices import Cpu
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep import isolation

pytestmark = pytest.mark.usefixtures("as_in_a_child")

KIB = 1024


def block(size: int = KIB) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8)


def figures(seen: WatchedBlock) -> tuple[int, int, int, int, int]:
    """Allocations, bytes allocated, freed, left and at most."""
    return (
        seen.allocations,
        seen.allocated_bytes,
        seen.freed_bytes,
        seen.left_bytes,
        seen.peak_bytes,
    )


def test_memory_still_referenced_is_left() -> None:
    with watch_allocations("three", "cpu") as seen:
        kept = [block() for _ in range(3)]
    assert figures(seen) == (3, 3 * KIB, 0, 3 * KIB, 3 * KIB)
    del kept


def test_dropped_memory_is_freed() -> None:
    with watch_allocations("one after the other", "cpu") as seen:
        for _ in range(3):
            block()
    assert figures(seen) == (3, 3 * KIB, 3 * KIB, 0, KIB)


def test_a_block_without_allocations_counts_zero() -> None:
    x = torch.ones(4, 6)
    with watch_allocations("a view", "cpu") as seen:
        x.T.narrow(0, 1, 2)
    assert figures(seen) == (0, 0, 0, 0, 0)


def test_memory_of_an_earlier_watch_can_be_freed_in_a_later_one() -> None:
    with watch_allocations("take", "cpu"):
        kept = [block()]
    with watch_allocations("give back", "cpu") as seen:
        kept.clear()
    assert figures(seen) == (0, 0, KIB, -KIB, 0)


def test_earlier_garbage_does_not_count_as_freed() -> None:
    with watch_allocations("garbage", "cpu"):
        loop: list[object] = [block()]
        loop.append(loop)
        del loop
    with watch_allocations("a collection", "cpu") as seen:
        block()
    assert seen.freed_bytes == KIB


def test_the_default_report_is_one_printed_line(capsys: pytest.CaptureFixture[str]) -> None:
    with watch_allocations("two blocks", "cpu"):
        block(), block()
    with watch_allocations("a view", "cpu"):
        pass
    assert capsys.readouterr().out.splitlines() == [
        "two blocks: 2 allocations of 2,048 B on cpu, 2,048 B freed, 2,048 B at most",
        "a view: no allocation on cpu, 0 B freed, 0 B at most",
    ]


def test_the_report_goes_to_the_given_function(capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    with watch_allocations("here", "cpu", lines.append):
        block()
    with watch_allocations("nowhere", "cpu", None) as seen:
        block()
    assert lines == ["here: 1 allocation of 1,024 B on cpu, 1,024 B freed, 1,024 B at most"]
    assert capsys.readouterr().out == ""
    assert str(seen).startswith("nowhere: 1 allocation")


def test_figures_are_unknown_until_the_block_has_ended() -> None:
    with watch_allocations("a block", "cpu", None) as seen:
        block()
        assert (seen.allocations, seen.allocated_bytes) == (None, None)
        assert str(seen) == "a block: still running"
    assert seen.allocations == 1


def test_an_allocator_without_counts_gives_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        unreadable = "it does not count"

        @contextmanager
        def watch(self) -> Iterator[Watched[Allocations]]:
            yield Watched()

    monkeypatch.setattr(Cpu, "allocator", Silent())
    with watch_allocations("a block", "cpu", None) as seen:
        pass
    assert str(seen) == "a block: it does not count"
    assert seen.left_bytes is None


def test_an_exception_in_the_block_propagates_and_ends_the_watch() -> None:
    with pytest.raises(ZeroDivisionError), watch_allocations("wrong", "cpu", None):
        block(1 // 0)
    with watch_allocations("right", "cpu", None) as seen:
        block()
    assert seen.result == Allocations(1, 1, KIB, KIB, KIB)


def test_watches_cannot_be_nested() -> None:
    with watch_allocations("outer", "cpu", None) as outer:
        block()
        with pytest.raises(RuntimeError, match="which is already running: end the other"):
            watch_allocations("inner", "cpu", None).__enter__()
        block()
    assert outer.allocations == 2


def test_a_missing_device_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="device=tpu"):
        watch_allocations("a block", "tpu").__enter__()


def test_only_the_report_is_printed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    asked = isolation.call(
        "tests.helpers.child_functions:watches_allocations", timeout_s=60, log=log
    )
    assert asked.kind == "returned"
    assert log.read_text() == "a block: 1 allocation of 40 B on cpu, 40 B freed, 40 B at most\n"


def test_a_watch_on_another_gpu_leaves_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    current = [1]
    for name, value in {
        "is_initialized": lambda: True,
        "is_available": lambda: True,
        "device_count": lambda: 2,
        "current_device": lambda: current[-1],
        "set_device": lambda gpu: current.append(getattr(gpu, "index", gpu)),
        "get_device_properties": lambda device: SimpleNamespace(uuid="0a-1b"),
        "get_allocator_backend": lambda: "cudaMallocAsync",  # whose memory is not counted
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    with watch_allocations("there", "cuda:0", None) as seen:
        assert current == [1, 0, 1]
    assert seen.device == "cuda"
    with watch_allocations("here", report=None) as seen:
        assert current[-1] == 1
    assert seen.device == "cuda"

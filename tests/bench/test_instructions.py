"""Instruction counts: split by library, without an empty call's, and shown."""

from __future__ import annotations

import pytest
import torch
from torch.utils.benchmark import CallgrindStats, FunctionCounts, Timer
from torch.utils.benchmark.utils.common import TaskSpec
from torch.utils.benchmark.utils.valgrind_wrapper.timer_interface import FunctionCount

from modescope.bench import instructions


def counted(**by_library: int) -> FunctionCounts:
    paths = {
        "python": "/usr/bin/python3.11",
        "bindings": "/site-packages/torch/lib/libtorch_python.so",
        "torch": "/site-packages/torch/lib/libtorch_cpu.so",
        "c": "/lib/x86_64-linux-gnu/libc-2.31.so",
    }
    named = [FunctionCount(n, f"a.c:f [{paths[each]}]") for each, n in by_library.items()]
    return FunctionCounts((*named, FunctionCount(50, "???:0x1234")), inclusive=False)


CALLED, EMPTY = counted(python=700, bindings=400, torch=900, c=300), counted(python=200)
STATS = CallgrindStats(TaskSpec("", ""), 100, False, EMPTY, EMPTY, CALLED, CALLED, None)


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Valgrind is not started; what torch tries in this process before is done."""

    def collect(timer: Timer, number: int) -> CallgrindStats:
        timer.timeit(1)
        return STATS

    monkeypatch.setattr(Timer, "collect_callgrind", collect)
    for name, value in instructions.VARIABLES.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("stubbed")
def test_a_page_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert instructions.main(["--ops", "mm", "view"]) == 0
    assert not torch.is_inference_mode_enabled()
    *_, table = capsys.readouterr().out.strip().split("\n\n")
    assert table.splitlines() == [
        "| op | mode | instructions | interpreter | bindings | torch | system |",
        "| --- | --- | --: | --: | --: | --: | --: |",
        *(
            f"| {op} | {mode} | 21 | 5 | 4 | 9 | 3 |"
            for op in ("mm", "view")
            for mode in instructions.MODES
        ),
    ]

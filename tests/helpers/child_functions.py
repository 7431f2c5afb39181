"""Functions that test_isolation runs in children: every way in which a child can end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from modescope.bench.records.errors import Progress, UsageError
from tests.helpers.processes import alive, soon

AT_IMPORT = os.environ.get("MODESCOPE_TEST")


def adds(progress: Progress, left: int, right: int) -> int:
    progress("thinking")
    progress("adding")
    return left + right


def sees_variable(progress: Progress) -> str | None:
    return AT_IMPORT


def sees(progress: Progress, name: str) -> str | None:
    return os.environ.get(name)


def imports(progress: Progress, module: str) -> bool:
    return module in sys.modules


def moment(progress: Progress) -> float:
    """The time now, on a clock that all processes of a Linux machine share."""
    return time.monotonic()


def process_id(progress: Progress) -> int:
    return os.getpid()


def watches_allocations(progress: Progress) -> None:
    import torch

    from modescope.bench.allocations import watch_allocations

    with watch_allocations("a block", "cpu"):
        torch.empty(10)


def misuses(progress: Progress) -> NoReturn:
    raise UsageError("shape.batch=0: must be at least 1")


def fails(progress: Progress) -> NoReturn:
    raise ValueError("first line\n   second line")


def needs_memory(progress: Progress) -> NoReturn:
    progress("second", [1, 2])
    raise MemoryError("cannot have 1 PiB")


def aborts_late(progress: Progress) -> NoReturn:
    progress("first", [1])
    progress("second", [1, 2])
    os.abort()


def sleeps_late(progress: Progress) -> None:
    progress("second", [1, 2])
    time.sleep(60)


def dies_of(progress: Progress, number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def leaves(progress: Progress) -> NoReturn:
    os._exit(7)


def sleeps(progress: Progress) -> None:
    time.sleep(60)


def lingers(progress: Progress) -> str:
    """Returns, but leaves a thread that keeps the process from ending."""
    import threading

    threading.Thread(target=time.sleep, args=(60,)).start()
    return "done"


def talks(progress: Progress) -> None:
    print("said by Python")
    os.system("echo said by a program; echo complained >&2")


def with_grandchild(progress: Progress, marker: str, ending: str) -> None:
    """Starts `sleep <marker>`, then ends as ENDINGS[ending] does."""
    subprocess.Popen(["sleep", marker])
    assert soon(lambda: alive(marker))  # Popen returns before /proc shows the new command line
    progress("started")
    ENDINGS[ending](progress)


def ends(progress: Progress) -> None:
    pass


ENDINGS: dict[str, Callable[[Progress], object]] = {
    "returned": ends,
    "crashed": leaves,
    "timeout": sleeps,
}

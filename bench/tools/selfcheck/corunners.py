"""Processes that compete for the processor during a measurement."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from modescope.bench.records.cpu import usable_cores

PERIOD_S = 0.005  # of a load that is busy only part of the time; below a scheduler's time slice

CORES = usable_cores()

BUSY = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
parent, share, period_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
print(flush=True)
while os.getppid() == parent:
    end = time.perf_counter() + share * period_s
    while time.perf_counter() < end:
        pass
    if share < 1:
        time.sleep((1 - share) * period_s)
"""


@contextmanager
def co_runners(count: int, share: float = 1.0) -> Iterator[None]:
    """Runs `count` other processes that are busy for a `share` of the time.

    They end with the context, and by themselves if this process dies.
    """
    command = [sys.executable, "-c", BUSY, str(os.getpid()), str(share), str(PERIOD_S)]
    started: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout
            if process.stdout.readline() != b"\n":
                raise RuntimeError("a co-runner did not start")
            started.append(process)
        yield
        if any(process.poll() is not None for process in started):
            raise RuntimeError("a co-runner ended too early")


Condition = Callable[[], AbstractContextManager[None]]

CONDITIONS: dict[str, Condition] = {
    "quiet": nullcontext,
    "one co-runner": lambda: co_runners(1),
    "a co-runner on each core": lambda: co_runners(CORES),
}

"""Runs a step as a process group within its time, and leaves no process of it behind.

A process of a step is known by a mark in its environment, which all that it starts inherit: also
those that lead a group or a session of their own, as the processes that measure do.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.paths import ROOT
from tests.helpers.processes import alive

MARK = "MODESCOPE_GPU_RUN"
"""The variable that holds the mark."""

GRACE_S = 5.0
"""After SIGINT, in which a sweep joins its rows and pytest sums up; then all are killed."""

GONE_S = 10.0  # for killed processes to vanish; one that hangs in the driver may never do

PASSED, FAILED, CRASHED, TIMEOUT, SKIPPED = "passed", "failed", "crashed", "timeout", "skipped"
EXIT_SKIPPED = 77
"""Exit status of a step that can show nothing here, as in automake."""

VERDICTS = {0: PASSED, 1: FAILED, EXIT_SKIPPED: SKIPPED}
"""Exit status -> verdict; any other status is a crash."""

HEAD_BYTES, TAIL_BYTES = 16 * 2**10, 48 * 2**10  # of a step's output are kept
MOST_SAID = 600  # characters of the line that a step printed last
TRACEBACK = re.compile(r"^Traceback \(most recent call last\):", flags=re.M)


@dataclass(frozen=True)
class Ended:
    """How a step ended, how long it ran, and the last line that it printed."""

    verdict: str
    seconds: float
    said: str


def run(
    command: Sequence[str], output: Path, limit_s: float, around: Mapping[str, str], mark: str
) -> Ended:
    """Runs `command` with the variables `around` and waits; its output is written to `output`.

    After `limit_s` it gets SIGINT, and GRACE_S later it is killed with all that it started. What a
    command that ended by itself has left running is killed, too.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            env={**around, MARK: mark}, start_new_session=True,
        )  # fmt: skip
        status: int | None = None
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            _interrupt(process)
        finally:
            left = end_all(mark)
            process.wait()
    seconds = round(time.monotonic() - begin, 2)
    text = _shorten(output)
    said, verdict = _last_line(text), _verdict(status, text)
    if verdict == CRASHED:
        said = f"{said}; {f'signal {-status}' if status < 0 else f'exit status {status}'}"
    if left:
        said = f"{said}; could not be killed: {', '.join(map(str, left))}"
    return Ended(verdict, seconds, said)


def _verdict(status: int | None, text: str) -> str:
    if status is None:
        return TIMEOUT
    if status == 1 and TRACEBACK.search(text[-4000:]) and "short test summary" not in text:
        return CRASHED  # Python's status after an exception that nobody expected
    return VERDICTS.get(status, CRASHED)


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does in a terminal: every process of the group gets the signal."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)


def end_all(mark: str) -> list[int]:
    """Kills every process with the mark; returns the ids of those that are there after GONE_S."""
    deadline = time.monotonic() + GONE_S
    while left := alive(f"{MARK}={mark}"):
        for number in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        if time.monotonic() > deadline:
            return left
        time.sleep(0.02)
    return []


def _shorten(output: Path) -> str:
    """Cuts the middle out of a long output; returns what is left."""
    content = output.read_bytes()
    if len(content) > HEAD_BYTES + TAIL_BYTES:
        cut = len(content) - HEAD_BYTES - TAIL_BYTES
        note = f"\n… {cut} bytes were cut out …\n".encode()
        content = content[:HEAD_BYTES] + note + content[-TAIL_BYTES:]
        output.write_bytes(content)
    return content.decode("utf-8", errors="replace")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:MOST_SAID] if lines else "it printed nothing"


@contextlib.contextmanager
def guarded(mark: str) -> Iterator[None]:
    """While the block runs, another process waits; if this one dies, it kills all with the mark."""
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.gpu.guard"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert guard.stdin
    try:
        guard.stdin.write(f"{mark}\n".encode())
        guard.stdin.flush()
        yield
    finally:
        guard.stdin.close()
        guard.wait()

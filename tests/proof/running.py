"""Runs the commands of a step within its time, and stops them as Ctrl-C does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tests.helpers.paths import ROOT
from tests.proof.passed_tests import MACHINE
from tests.proof.records import Ended, Record
from tests.proof.step import Setting, Step

PRETENDED = ROOT / "tests" / "proof" / "pretended"
"""A folder on PYTHONPATH that gives every process a pretended GPU."""

GRACE_S = 20.0
"""After Ctrl-C, in which programs save what they have; then they are killed."""

TAIL_LINES = 12
"""Of the output of a command that failed."""

Keep = Callable[[Record], None]
Say = Callable[[str], None]


def run(
    step: Step,
    before: Record,
    setting: Setting,
    deadline: float,
    keep: Keep,
    say: Say,
    again: bool = False,
) -> Record:
    """Runs the commands that have not ended yet, and `again` those that failed.

    They are stopped when the step has taken its minutes, or at the deadline (time.monotonic).
    `keep` gets the record after each.
    """
    deadline = min(deadline, time.monotonic() + 60 * step.minutes)
    record = replace(before, stopped=None)
    for command in step.commands:
        name = command.name(setting)
        ended = None if step.repeats else before.commands.get(name)
        if not command.chosen(setting):
            continue
        if ended and (command.is_fine(ended.status, setting) or not again):
            continue
        begin = time.monotonic()
        output = setting.folder / "output" / f"{step.name}.txt"
        around = {**os.environ, **variables(step, setting)}
        status = start(command.line(setting), output, name, deadline, around)
        if status is None:
            minutes = (time.monotonic() - begin) / 60
            record = replace(
                record, stopped=f"stopped when its time was over, after {minutes:.1f} min"
            )
        else:
            now = Ended(status, round(time.monotonic() - begin, 1))
            record = replace(record, commands={**record.commands, name: now})
            if not command.is_fine(status, setting):
                say(f"    status {status}: {name}\n{_tail(output)}")
        record = replace(record, reached=step.reached(setting.folder))
        keep(record)
        if record.stopped:
            break
    return record


def start(
    line: list[str], output: Path, name: str, deadline: float, around: Mapping[str, str]
) -> int | None:
    """Exit status of a command; None if it was stopped. What it prints is appended to `output`."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("a", encoding="utf-8") as file:
        file.write(f"\n$ {name}\n")
        file.flush()
        process = subprocess.Popen(
            line, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env=around, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _interrupt(process)
            return None
        except KeyboardInterrupt:
            _interrupt(process)
            raise
        finally:
            _signal(process, signal.SIGKILL)  # what it has left running
            process.wait()


def variables(step: Step, setting: Setting) -> dict[str, str]:
    """What a step's commands find set: in a rehearsal a pretended GPU, and caches of its own."""
    found = {"PYTHONUNBUFFERED": "1", MACHINE: setting.machine}
    if setting.rehearsal:
        found["XDG_CACHE_HOME"] = str(setting.folder / "caches")
    if setting.rehearsal and step.needs_gpu:
        path = (str(PRETENDED), str(ROOT), os.environ.get("PYTHONPATH"))
        found["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    return found


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does in a terminal: every process of the group gets the signal."""
    _signal(process, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _tail(output: Path) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"    | {line}" for line in lines[-TAIL_LINES:])

"""Steps that end in every way, and a drive of them that a test can kill.

`python -m tests.helpers.fake_gpu_steps ACTION FOLDER NAME` is a step; with the action `drive` it
drives the steps of NAME, such as `pass:a,busy:b`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.gpu.driving import Drive, Setting
from tests.gpu.log import Log, Machine
from tests.gpu.running import EXIT_SKIPPED
from tests.gpu.steps import Step

MODULE = "tests.helpers.fake_gpu_steps"
RAN = "ran.txt"
SLOW_S = 0.5
MACHINE = Machine("NVIDIA H200", "2.13.0", "13.0", "580.1", "3.12.3", pretended=False)


def step(action: str, name: str, limit_s: float = 20.0, expected_s: float = 1.0) -> Step:
    """A step that does `action`."""
    words = (action, "{folder}", name)
    return Step(5, name, limit_s, expected_s, MODULE, words, goes_on=action == "on")


def last(name: str = "end") -> Step:
    """A step for the end of each call."""
    return Step(8, name, 20.0, 1.0, MODULE, ("pass", "{folder}", name), last=True)


def ran(folder: Path) -> list[str]:
    """The names of the steps that were started, in order, each time."""
    file = folder / RAN
    return file.read_text().split() if file.exists() else []


def _sleeper() -> None:
    """A process in a session of its own, which ignores the death of its parent."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)


def _hang() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(600)


def _hang_with_a_grandchild() -> None:
    _sleeper()
    _hang()


def _tidy() -> None:
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        print("tidied")
        sys.exit(1)


def _busy() -> None:
    _sleeper()
    time.sleep(SLOW_S)


def _raise() -> None:
    raise RuntimeError("planted")


def _on(folder: Path) -> None:
    """Does a second of work, half a second of it in each call."""
    done = folder / "done.txt"
    for _ in range(2 - len(done.read_text() if done.exists() else "")):
        time.sleep(SLOW_S)
        with done.open("a") as file:
            file.write("x")


ACTIONS: dict[str, Callable[[], object]] = {
    "pass": lambda: None,
    "fail": lambda: sys.exit(1),
    "skip": lambda: sys.exit(EXIT_SKIPPED),
    "usage": lambda: sys.exit(2),
    "raise": _raise,
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": _hang,
    "tidy": _tidy,
    "grandchild": _hang_with_a_grandchild,
    "leave": _sleeper,
    "busy": _busy,
    "chatty": lambda: print("x" * 10**6),
}


def drive(folder: Path, steps: str) -> int:
    """Drives steps such as `pass:a,busy:b` in this process, with much time."""
    log = Log(folder)
    if log.machine is None:
        log.begin(MACHINE)
    named = [step(action, name) for action, name in (each.split(":") for each in steps.split(","))]
    return Drive([*named, last()], Setting(folder, 600.0, 600.0), log).run()


def main(action: str, folder: Path, name: str) -> int:
    """The exit status of a step that ends by itself."""
    if action == "drive":
        return drive(folder, name)
    with (folder / RAN).open("a") as file:
        file.write(f"{name}\n")
    _on(folder) if action == "on" else ACTIONS[action]()
    print(f"{action} is done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))

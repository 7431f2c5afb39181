"""For every ending of a child, the parent gets an outcome in time, and no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import ChildOutcome, Ending, Task
from tests.helpers import child_functions
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, marker, soon


def call(name: str, *arguments: Any, timeout_s: float = 30, **options: Any) -> ChildOutcome[Any]:
    return isolation.call(
        Task(f"tests.helpers.child_functions:{name}", object),
        *arguments,
        timeout_s=timeout_s,
        **options,
    )


@pytest.fixture(scope="module", autouse=True)
def forkserver() -> None:
    """Started, and done with its imports."""
    assert call("adds", 1, 2, timeout_s=120) == ChildOutcome(Ending.RETURNED, 3)


def test_each_call_has_a_process_of_its_own_from_any_thread() -> None:
    ids: list[int] = []
    thread = threading.Thread(target=lambda: ids.append(call("process_id").value))
    thread.start()
    thread.join()
    ids.append(call("process_id").value)
    assert len({*ids, os.getpid()}) == 3
    phases: list[str] = []
    call("adds", 1, 2, on_phase=phases.append)
    assert phases == ["thinking", "adding"]


def test_a_parent_that_waits_is_called_as_often_as_it_asks() -> None:
    called_s: list[float] = []

    def on_wait() -> float:
        called_s.append(time.monotonic())
        return 0.1 if len(called_s) < 6 else 60.0

    assert call("sleeps_late", timeout_s=1, on_wait=on_wait).kind == Ending.TIMEOUT
    assert len(called_s) == 6
    assert called_s[-1] - called_s[0] > 0.3


LATE = ", during second"


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (["misuses"], ChildOutcome(Ending.USAGE, reason="shape.batch=0: must be at least 1")),
        (["fails"], ChildOutcome(Ending.FAILED, reason="ValueError: first line second line")),
        (["needs_memory"], ChildOutcome(Ending.OOM, [1, 2], "MemoryError: cannot have 1 PiB")),
        (["leaves"], ChildOutcome(Ending.CRASHED, reason="the process ended with exit status 7")),
        (
            ["dies_of", signal.SIGSEGV],
            ChildOutcome(Ending.CRASHED, reason="the process ended by SIGSEGV"),
        ),
        (
            ["aborts_late"],
            ChildOutcome(Ending.CRASHED, [1, 2], f"the process ended by SIGABRT{LATE}"),
        ),
        (
            ["sleeps_late"],
            ChildOutcome(Ending.TIMEOUT, [1, 2], f"still running after timeout_s=1{LATE}"),
        ),
    ],
)
def test_every_ending_of_a_child_has_its_outcome(
    words: list[Any], outcome: ChildOutcome[Any]
) -> None:
    """With what it had reported by then. The parent awaits it without CPU time."""
    used_s = time.process_time()
    assert call(*words, timeout_s=1 if outcome.kind == Ending.TIMEOUT else 30) == outcome
    assert time.process_time() - used_s < 0.1


def test_output_and_tracebacks_go_to_the_log_only(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    call("talks", log=log)
    said = ["complained", "said by Python", "said by a program"]
    assert sorted(log.read_text().splitlines()) == said
    call("fails", log=log)
    assert "in fails" in log.read_text()
    assert str(log) in call("aborts_late", log=log).reason
    assert capfd.readouterr() == ("", "")


def test_a_child_that_lingers_after_its_result_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "EXIT_TIMEOUT_S", 0.2)
    start = time.monotonic()
    assert call("lingers") == ChildOutcome(Ending.RETURNED, "done")
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("ending", [*child_functions.ENDINGS, "interrupted"])
def test_no_grandchild_survives(ending: str) -> None:
    """Nor an exception in the parent, which Ctrl-C raises."""
    sign, seen = marker(), list[list[int]]()

    def on_phase(phase: str) -> None:
        seen.append(alive(sign))
        if ending == "interrupted":
            raise KeyboardInterrupt

    words = ("with_grandchild", sign, "timeout" if ending == "interrupted" else ending)
    with pytest.raises(KeyboardInterrupt) if ending == "interrupted" else nullcontext():
        found = call(*words, timeout_s=1 if ending == "timeout" else 30, on_phase=on_phase)
        assert found.kind == ending
    assert len(seen[0]) == 1
    assert soon(lambda: not alive(sign))


def test_children_have_variables_of_their_own_before_anything_is_imported() -> None:
    for name in (isolation.STARTED, "PYTHONSAFEPATH", "PYTHONPATH"):
        assert call("sees", name).value == os.environ.get(name)
    assert call("sees_variable", variables={"MODESCOPE_TEST": "here"}).value == "here"
    assert call("sees_variable").value is None


# Parents with a forkserver of their own

BEGIN = """
import os, signal, time
from multiprocessing import forkserver
from modescope.bench.sweep import isolation

isolation.PRELOAD.clear()

def call(name, *arguments, **options):
    task = isolation.Task(f"tests.helpers.child_functions:{name}", object)
    return isolation.call(task, *arguments, timeout_s=60, **options).value

def server():
    return forkserver._forkserver._forkserver_pid
"""


def parent(code: str, **variables: str) -> tuple[subprocess.Popen[str], str]:
    """A process that runs the code; it, its forkserver and its children carry the sign."""
    sign = marker()
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + code],
        cwd=ROOT,
        env={**os.environ, "MODESCOPE_TEST": sign, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, sign


def printed(code: str) -> list[str]:
    """What it prints until the last process that could print has ended; nothing on stderr."""
    process, _ = parent(code)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    return out.splitlines()


MEASURES = """
shows = lambda phase: print(phase, flush=True)
call("with_grandchild", os.environ["MODESCOPE_TEST"], "timeout", on_phase=shows)
"""

IDLE = """
isolation.PRELOAD[:] = ["takes_long_to_end"]
print(call("adds", 1, 2), flush=True)
time.sleep(60)
"""

# as with torch and its compiler, which takes a second, and several under load
TAKES_LONG_TO_END = "import atexit, time\natexit.register(time.sleep, 30)"


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not tell")
@pytest.mark.parametrize(
    ("code", "line", "processes"),
    [
        (MEASURES, "started", 4),  # parent, forkserver, child, grandchild
        (IDLE, "3", 2),
    ],
    ids=["measuring", "idle"],
)
def test_nothing_survives_a_killed_parent(
    code: str, line: str, processes: int, tmp_path: Path
) -> None:
    (tmp_path / "takes_long_to_end.py").write_text(TAKES_LONG_TO_END)
    process, sign = parent(code, PYTHONPATH=str(tmp_path))
    with process:
        assert process.stdout.readline() == f"{line}\n"
        assert soon(lambda: len(alive(sign)) >= processes)
        process.kill()
        assert soon(lambda: not alive(sign))


ENDS_WHILE_IT_ASKS = """
asks = forkserver.connect_to_new_process

def killed(fds):
    asks(fds)
    os.kill(os.getpid(), signal.SIGKILL)

forkserver.connect_to_new_process = killed
call("adds", 1, 2)
"""


def test_a_parent_killed_while_starting_a_child_leaves_no_traceback() -> None:
    """On the terminal, where the starting child would print it."""
    process, sign = parent(ENDS_WHILE_IT_ASKS)
    assert process.communicate(timeout=60) == ("", "")
    assert soon(lambda: not alive(sign))


CHANGED_VARIABLES = """
sees = lambda name: call("sees", name)
matters = lambda name: name.startswith("OMP_")
os.environ["OMP_HERE"] = os.environ["OTHER"] = "1"
print(sees("OMP_HERE"), sees("OTHER"))
first = server()
os.environ["OTHER"] = "2"
print(isolation.end_outdated(matters), sees("OTHER"), server() == first)
del os.environ["OMP_HERE"]
print(sees("OMP_HERE"), isolation.end_outdated(matters), sees("OMP_HERE"), server() == first)
print(isolation.end_outdated(matters))
"""


def test_children_have_variables_that_were_changed_and_a_new_forkserver_where_they_matter() -> None:
    lines = ["1 1", "False 2 True", "None True None False", "False"]
    assert printed(CHANGED_VARIABLES) == lines


IMPORTS_BESIDE_GPUS = """
import torch
from modescope.bench.model import compiler
asked = []
torch._C._cuda_getDeviceCount = lambda: asked.append(os.getpid()) or 3  # starts CUDA
compiler.import_it = lambda: print(torch.cuda.is_available(), torch._C._cuda_getDeviceCount())
compiler.import_without_cuda()
print(asked)
print(torch.cuda.is_available(), asked == [os.getpid()])
"""


@pytest.mark.full
def test_the_imports_of_a_forkserver_start_no_cuda() -> None:
    """Counting GPUs does. The compiler is told what any other process would find."""
    assert printed(IMPORTS_BESIDE_GPUS) == ["True 3", "[]", "True True"]


def test_the_main_program_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f'{BEGIN}print("main", flush=True)\nprint(call("adds", 1, 2))\n')
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("main\n3\n", "")


INTERRUPTED = """
import os, signal, subprocess, sys
from modescope.bench.sweep.isolation import Ending, ignore_interrupts

CHILD = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('alive')"
try:
    with ignore_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        print(subprocess.check_output([sys.executable, "-c", CHILD], text=True), end="")
except KeyboardInterrupt:
    print("interrupted", signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a blocked, ignored signal")
def test_an_interrupt_is_not_lost_while_processes_are_started() -> None:
    """And a process that is started meanwhile does not get it. A process without threads."""
    program = [sys.executable, "-c", INTERRUPTED]
    said = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said == "alive\ninterrupted set()\n"


ENDS_WHILE_IT_IMPORTS = """
import contextlib
from modescope.bench.sweep import early

def fails():
    with contextlib.suppress(ValueError), early.started(["mode=eager"]):
        print(server() is None)
        raise ValueError
    print(server() is None)

isolation.PRELOAD[:] = ["takes_long_to_import"]
fails()
isolation.PRELOAD.clear()
call("adds", 1, 2)
fails()
"""


def test_a_forkserver_that_was_started_in_vain_ends_at_once_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "takes_long_to_import.py").write_text("import time\ntime.sleep(60)")
    process, _ = parent(ENDS_WHILE_IT_IMPORTS, PYTHONPATH=str(tmp_path))
    said = process.communicate(timeout=30)
    assert said == ("False\nTrue\nFalse\nFalse\n", "")

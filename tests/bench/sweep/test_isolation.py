"""For every ending of a child, the parent gets an outcome in time, and no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import Outcome
from tests.helpers import child_functions
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, marker, soon


def call(name: str, *arguments: Any, timeout_s: float = 30, **options: Any) -> Outcome:
    return isolation.call(
        f"tests.helpers.child_functions:{name}", *arguments, timeout_s=timeout_s, **options
    )


@pytest.fixture(scope="module", autouse=True)
def forkserver() -> None:
    """Started, and done with its imports."""
    assert call("adds", 1, 2, timeout_s=120) == Outcome("returned", 3)


def test_every_call_has_its_own_process() -> None:
    ids = {call("process_id").value for _ in range(2)}
    assert len(ids | {os.getpid()}) == 3


def test_phases_arrive_in_order() -> None:
    phases: list[str] = []
    call("adds", 1, 2, on_phase=phases.append)
    assert phases == ["thinking", "adding"]


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("misuses", Outcome("usage", reason="shape.batch=0: must be at least 1")),
        ("fails", Outcome("failed", reason="ValueError: first line second line")),
        ("exits", Outcome("failed", reason="SystemExit: 3")),
        ("needs_memory", Outcome("oom", reason="MemoryError: cannot have 1 PiB")),
        ("aborts", Outcome("crashed", reason="the process ended by SIGABRT")),
        ("leaves", Outcome("crashed", reason="the process ended with exit status 7")),
    ],
)
def test_every_ending_of_a_child_has_its_outcome(name: str, outcome: Outcome) -> None:
    assert call(name) == outcome


@pytest.mark.parametrize(
    ("number", "name"),
    [(signal.SIGSEGV, "SIGSEGV"), (signal.SIGRTMIN + 5, f"signal {signal.SIGRTMIN + 5}")],
)
def test_a_crash_names_the_signal(number: int, name: str) -> None:
    assert call("dies_of", int(number)).reason == f"the process ended by {name}"


def test_a_failure_leaves_its_traceback_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    call("fails", log=log)
    assert "in fails" in log.read_text()
    assert str(log) in call("aborts", log=log).reason


def test_a_child_is_stopped_at_its_limit() -> None:
    start = time.monotonic()
    outcome = call("sleeps", timeout_s=0.5)
    assert outcome == Outcome("timeout", reason="still running after timeout_s=0.5")
    assert 0.5 <= time.monotonic() - start < 2.5


def test_a_wait_may_exceed_the_limit_of_the_system_call() -> None:
    assert call("adds", 1, 2, timeout_s=1e9).value == 3


def test_a_child_that_closes_its_pipe_is_stopped() -> None:
    start = time.monotonic()
    assert call("hangs_up", timeout_s=0.5).kind in ("timeout", "crashed")  # depends on timing
    assert time.monotonic() - start < 2.5


def test_a_child_that_lingers_after_its_result_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "EXIT_TIMEOUT_S", 0.2)
    start = time.monotonic()
    assert call("lingers") == Outcome("returned", "done")
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("ending", child_functions.ENDINGS)
def test_no_grandchild_survives(ending: str) -> None:
    sign = marker()
    seen: list[list[int]] = []
    outcome = call(
        "with_grandchild",
        sign,
        ending,
        timeout_s=1 if ending == "timeout" else 30,
        on_phase=lambda phase: seen.append(alive(sign)),
    )
    assert outcome.kind == ending
    assert len(seen[0]) == 1
    assert soon(lambda: not alive(sign))


def test_no_grandchild_survives_an_exception_in_the_parent() -> None:
    sign = marker()

    def interrupted(phase: str) -> None:
        assert soon(lambda: alive(sign))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call("with_grandchild", sign, "timeout", on_phase=interrupted)
    assert soon(lambda: not alive(sign))


PARENT = """
import sys
from modescope.bench.sweep import isolation
isolation.PRELOAD.clear()
print(isolation.call(
    "tests.helpers.child_functions:with_grandchild", sys.argv[1], "timeout", timeout_s=60,
    on_phase=lambda phase: print(phase, flush=True),
))
"""


def test_nothing_survives_a_killed_parent() -> None:
    sign = marker()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, sign],
        cwd=ROOT,
        env={**os.environ, "MODESCOPE_TEST": sign},  # forkserver and child carry it too
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout.readline() == "started\n"
        assert soon(lambda: len(alive(sign)) >= 4)  # parent, forkserver, child, grandchild
        parent.kill()
    assert soon(lambda: not alive(sign))


IMPORTS_FOR_LONG = """
from modescope.bench.sweep import isolation
isolation.PRELOAD[:0] = ["takes_long"]
isolation.call("tests.helpers.child_functions:adds", 1, 2, timeout_s=60)
"""

TAKES_LONG = """
import ctypes, pathlib
pathlib.Path(__file__).with_name("begun").touch()
ctypes.PyDLL(None).sleep(30)  # no Python runs meanwhile, as while a library is loaded
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not tell")
def test_a_forkserver_ends_with_its_parent_while_importing(tmp_path: Path) -> None:
    (tmp_path / "takes_long.py").write_text(TAKES_LONG)
    sign = marker()
    parent = subprocess.Popen(
        [sys.executable, "-c", IMPORTS_FOR_LONG],
        cwd=ROOT,
        env={**os.environ, "MODESCOPE_TEST": sign, "PYTHONPATH": str(tmp_path)},
    )
    with parent:
        assert soon((tmp_path / "begun").exists, within_s=20)
        assert len(alive(sign)) >= 2  # forkserver and parent
        parent.kill()
    assert soon(lambda: not alive(sign), within_s=1.0)


IDLE = """
import time
from modescope.bench.sweep import isolation
isolation.PRELOAD[:] = ["takes_long_to_end"]
print(isolation.call("tests.helpers.child_functions:adds", 1, 2, timeout_s=60).value, flush=True)
time.sleep(60)
"""


def test_a_forkserver_ends_with_its_parent_while_idle(tmp_path: Path) -> None:
    """Exiting with torch and its compiler loaded takes a second, and several under load."""
    (tmp_path / "takes_long_to_end.py").write_text(
        "import atexit, time\natexit.register(time.sleep, 30)"
    )
    sign = marker()
    parent = subprocess.Popen(
        [sys.executable, "-c", IDLE],
        cwd=ROOT,
        env={**os.environ, "MODESCOPE_TEST": sign, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout.readline() == "3\n"
        assert len(alive(sign)) >= 2
        parent.kill()
    assert soon(lambda: not alive(sign), within_s=1.0)


def test_a_forkserver_outlives_the_thread_that_started_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED_BY_A_THREAD], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("True 3\n", "")


STARTED_BY_A_THREAD = """
import os, threading
from multiprocessing import forkserver
from modescope.bench.sweep import isolation
isolation.PRELOAD.clear()
adds = lambda: isolation.call("tests.helpers.child_functions:adds", 1, 2, timeout_s=60)
thread = threading.Thread(target=adds)
thread.start()
thread.join()
server = forkserver._forkserver._forkserver_pid
three = adds().value
print(server == forkserver._forkserver._forkserver_pid, three)
"""


def test_children_have_the_environment_of_their_parent() -> None:
    for name in (isolation.STARTED, "PYTHONSAFEPATH", "PYTHONPATH"):
        assert call("sees", name).value == os.environ.get(name)
    assert isolation.STARTED not in os.environ


CHANGED_VARIABLES = """
import os
from multiprocessing import forkserver
from modescope.bench.sweep import isolation

isolation.PRELOAD.clear()
server = lambda: forkserver._forkserver._forkserver_pid
sees = lambda name: isolation.call("tests.helpers.child_functions:sees", name, timeout_s=60).value
matters = lambda name: name.startswith("OMP_")
os.environ["OMP_HERE"] = os.environ["OTHER"] = "1"
print(sees("OMP_HERE"), sees("OTHER"))
first = server()
os.environ["OTHER"] = "2"
print(isolation.renew(matters), sees("OTHER"), server() == first)
del os.environ["OMP_HERE"]
print(sees("OMP_HERE"), isolation.renew(matters), sees("OMP_HERE"), server() == first)
print(isolation.renew(matters))
"""


def test_children_have_variables_that_were_changed_and_a_new_forkserver_where_they_matter() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHANGED_VARIABLES], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "1 1",
        "False 2 True",
        "None True None False",
        "False",
    ]


ENDS_WHILE_IT_ASKS = """
import os, signal, socket, sys
from multiprocessing import forkserver, reduction
from modescope.bench.sweep import isolation

isolation.PRELOAD.clear()
asks = forkserver.connect_to_new_process

def killed():
    os.kill(os.getpid(), signal.SIGKILL)

def killed_asking(sock, fds):
    sock.shutdown(socket.SHUT_WR)  # which the forkserver sees before it can see the parent gone
    os.waitpid(forkserver._forkserver._forkserver_pid, 0)
    killed()

def killed_having_asked(fds):
    asks(fds)
    killed()

def interrupted(fds):
    asks(fds)
    raise KeyboardInterrupt

match sys.argv[1]:
    case "killed asking":
        reduction.sendfds = killed_asking
    case "killed having asked":
        forkserver.connect_to_new_process = killed_having_asked
    case "interrupted":
        forkserver.connect_to_new_process = interrupted
try:
    isolation.call("tests.helpers.child_functions:adds", 1, 2, timeout_s=60)
except KeyboardInterrupt:
    pass
"""


@pytest.mark.parametrize("how", ["killed asking", "killed having asked", "interrupted"])
def test_a_parent_killed_while_starting_a_child_leaves_no_traceback(how: str) -> None:
    """On the terminal, where the forkserver and a starting child would print it."""
    sign = marker()
    done = subprocess.run(
        [sys.executable, "-c", ENDS_WHILE_IT_ASKS, how],
        cwd=ROOT,
        env={**os.environ, "MODESCOPE_TEST": sign},
        capture_output=True,  # until the last process that could print has ended
        text=True,
        timeout=60,
    )
    assert done.returncode == (0 if how == "interrupted" else -signal.SIGKILL)
    assert (done.stdout, done.stderr) == ("", "")
    assert soon(lambda: not alive(sign))


IMPORTS_BESIDE_GPUS = """
import os, torch
from modescope.bench.steps import compiler
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
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS_BESIDE_GPUS], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["True 3", "[]", "True True"], done.stderr


NO_GUARD = """
import sys
from modescope.bench.sweep import isolation
print("main", flush=True)
isolation.PRELOAD.clear()
adds = "tests.helpers.child_functions:adds"
print(isolation.call(adds, 1, 2, timeout_s=60).value)
"""


@pytest.mark.parametrize("folder", ["short", "long" * 20])
def test_the_main_program_is_not_run_again_whatever_the_temporary_folder(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / "script.py").write_text(NO_GUARD)
    (tmp_path / folder).mkdir()
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / folder)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("main\n3\n", "")


def test_variables_are_set_before_the_function_is_imported() -> None:
    assert call("sees_variable", variables={"MODESCOPE_TEST": "here"}).value == "here"
    assert call("sees_variable").value is None
    assert "MODESCOPE_TEST" not in os.environ


def test_output_goes_to_the_log_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    call("talks", log=log)
    assert sorted(log.read_text().splitlines()) == [
        "complained",
        "said by Python",
        "said by a program",
    ]
    assert capfd.readouterr() == ("", "")


def test_the_parent_waits_without_using_cpu_time() -> None:
    before = time.process_time()
    call("sleeps", 1.0)
    assert time.process_time() - before < 0.1


def test_a_child_starts_fast() -> None:
    start = time.monotonic()
    call("adds", 1, 2)
    assert time.monotonic() - start < 1.0


def test_calls_may_come_from_another_thread() -> None:
    found: list[Outcome] = []
    thread = threading.Thread(target=lambda: found.append(call("adds", 1, 2)))
    thread.start()
    thread.join()
    assert found == [Outcome("returned", 3)]


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("aborts_late", "crashed", "the process ended by SIGABRT, during second"),
        ("sleeps_late", "timeout", "still running after timeout_s=1, during second"),
    ],
)
def test_partial_results_survive_the_child(name: str, kind: str, reason: str) -> None:
    assert call(name, timeout_s=1 if kind == "timeout" else 30) == Outcome(kind, [1, 2], reason)
